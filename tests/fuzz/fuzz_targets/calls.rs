//! Sequences of C calls, made on the shim with forwarding on and on the reference native beside it: descriptors answer with the same status
//! and the same values, and what native computes the shim computes too.
//!
//! The two libraries are those of `FUZZ_DIST` (`cargo xtask fuzz` sets it), as they are shipped: coverage does not see into them, so this
//! target is guided by its own decisions only.
#![no_main]

use std::{
    env,
    ffi::{c_int, c_void},
    path::PathBuf,
    ptr::null_mut,
    sync::LazyLock,
};

use fuzz_targets::counters::Counters;
use hipdnn_host::offline::choices::Choices;
use libfuzzer_sys::fuzz_target;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

static COUNTERS: Counters = Counters::new();
static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::load);

type Object = *mut c_void;

/// A function of the shim, and the same of native.
type Both<F> = [F; 2];

macro_rules! functions {
    ($($field:ident $name:literal ($($parameter:ty),*);)*) => {
        struct Libraries {
            $($field: Both<unsafe extern "C" fn($($parameter),*) -> c_int>,)*
            handles: [usize; 2],
        }

        impl Libraries {
            fn resolve(shim: &Library, native: &Library) -> Self {
                Self {
                    handles: [0; 2],
                    $($field: {
                        // SAFETY: functions of these names have these types.
                        unsafe {[
                            *shim.get(concat!($name, "\0").as_bytes()).expect($name),
                            *native.get(concat!($name, "_impl\0").as_bytes()).expect($name),
                        ]}
                    },)*
                }
            }
        }
    };
}

functions! {
    create "miopenCreate" (*mut Object);
    create_tensor "miopenCreateTensorDescriptor" (*mut Object);
    set_4d "miopenSet4dTensorDescriptor" (Object, c_int, c_int, c_int, c_int, c_int);
    set_nd "miopenSetTensorDescriptor" (Object, c_int, c_int, *const c_int, *const c_int);
    set_cast "miopenSetTensorCastType" (Object, c_int);
    tensor_size "miopenGetTensorDescriptorSize" (Object, *mut c_int);
    tensor_bytes "miopenGetTensorNumBytes" (Object, *mut usize);
    destroy_tensor "miopenDestroyTensorDescriptor" (Object);
    create_convolution "miopenCreateConvolutionDescriptor" (*mut Object);
    init_2d "miopenInitConvolutionDescriptor" (Object, c_int, c_int, c_int, c_int, c_int, c_int, c_int);
    init_nd "miopenInitConvolutionNdDescriptor" (Object, c_int, *const c_int, *const c_int, *const c_int, c_int);
    set_groups "miopenSetConvolutionGroupCount" (Object, c_int);
    set_output_pads "miopenSetTransposeConvNdOutputPadding" (Object, c_int, *const c_int);
    set_attribute "miopenSetConvolutionAttribute" (Object, c_int, c_int);
    output_dims "miopenGetConvolutionForwardOutputDim" (Object, Object, Object, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    destroy_convolution "miopenDestroyConvolutionDescriptor" (Object);
    forward "miopenConvolutionForward" (Object, *const f32, Object, *const c_void, Object, *const c_void, Object, c_int, *const f32, Object, *mut c_void, *mut c_void, usize);
}

impl Libraries {
    fn load() -> Self {
        let dist = PathBuf::from(env::var_os("FUZZ_DIST").expect("FUZZ_DIST names target/dist: run `cargo xtask fuzz calls`"));
        // SAFETY: loading runs the libraries' initialisers, as for any program that is linked with them.
        let open = |name: &str| unsafe { Library::open(Some(dist.join(name)), RTLD_NOW | RTLD_GLOBAL) }.expect("a library of target/dist");
        let _hip = std::mem::ManuallyDrop::new(open("lib/reference/libamdhip64.so.7"));
        let shim = std::mem::ManuallyDrop::new(open("lib/libMIOpen.so.1"));
        let native = std::mem::ManuallyDrop::new(open("lib/reference/libMIOpen_private.so.1"));
        let mut libraries = Self::resolve(&shim, &native);
        for (create, slot) in libraries.create.into_iter().zip(&mut libraries.handles) {
            let mut handle: Object = null_mut();
            // SAFETY: the output is a local.
            assert_eq!(unsafe { create(&mut handle) }, 0);
            *slot = handle.expose_provenance();
        }
        libraries
    }
}

/// Descriptors of the shim and of native, made by the same calls.
struct Descriptor {
    objects: [Object; 2],
    /// Its lengths are positive and small, so that memory can be given for it.
    small: bool,
}

/// With `FUZZ_LOG` set: the calls of an input, for people who look at a finding.
fn told(function: &str, descriptor: &Descriptor, arguments: &[String], status: c_int) {
    static TELLS: LazyLock<bool> = LazyLock::new(|| env::var_os("FUZZ_LOG").is_some());
    if *TELLS {
        eprintln!("{function}({:?}, {}) = {status}", descriptor.objects[1], arguments.join(", "));
    }
}

/// A 32-bit number: mostly one that makes sense.
fn number(choices: &mut Choices<'_>) -> c_int {
    match choices.below(8) {
        0 => choices.one(&[0, -1, c_int::MAX, c_int::MIN, 1 << 16, 1 << 30]),
        _ => choices.between(1, 6) as c_int,
    }
}

/// Calls both; the statuses must be the same. Arguments are written out for each call: they must be plain values.
macro_rules! same {
    ($function:ident($descriptor:expr $(, $argument:expr)*)) => {{
        let [shim, native] = LIBRARIES.$function;
        // SAFETY: live descriptors; arrays are as long as their counts say.
        let statuses = unsafe { [shim($descriptor.objects[0] $(, $argument)*), native($descriptor.objects[1] $(, $argument)*)] };
        told(stringify!($function), $descriptor, &[$(format!("{:?}", $argument)),*], statuses[1]);
        assert_eq!(statuses[0], statuses[1], "{}", stringify!($function));
        statuses[0]
    }};
}

/// Calls both for a value each; statuses and, after a success, values must be the same.
macro_rules! same_value {
    ($function:ident, $descriptor:expr, $initial:expr) => {{
        let [shim, native] = LIBRARIES.$function;
        let mut values = [$initial; 2];
        // SAFETY: live descriptors; the outputs are locals.
        let statuses = unsafe { [shim($descriptor.objects[0], &mut values[0]), native($descriptor.objects[1], &mut values[1])] };
        assert_eq!(statuses[0], statuses[1], "{}", stringify!($function));
        if statuses[0] == 0 {
            assert_eq!(values[0], values[1], "{}", stringify!($function));
        }
    }};
}

fn created(functions: Both<unsafe extern "C" fn(*mut Object) -> c_int>) -> Descriptor {
    let mut objects = [null_mut(); 2];
    for (create, object) in functions.into_iter().zip(&mut objects) {
        // SAFETY: the output is a local.
        assert_eq!(unsafe { create(object) }, 0);
    }
    Descriptor { objects, small: false }
}

#[derive(Default)]
struct World {
    tensors: Vec<Descriptor>,
    convolutions: Vec<Descriptor>,
}

impl World {
    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 if self.tensors.len() < 6 => self.tensors.push(created(LIBRARIES.create_tensor)),
            1 if self.convolutions.len() < 4 => self.convolutions.push(created(LIBRARIES.create_convolution)),
            2 if !self.tensors.is_empty() => {
                let descriptor = self.tensors.swap_remove(choices.below(self.tensors.len()));
                same!(destroy_tensor(&descriptor));
            }
            3 if !self.convolutions.is_empty() => {
                let descriptor = self.convolutions.swap_remove(choices.below(self.convolutions.len()));
                same!(destroy_convolution(&descriptor));
            }
            4..=8 if !self.tensors.is_empty() => {
                let which = choices.below(self.tensors.len());
                set_tensor(&mut self.tensors[which], choices);
            }
            9..=12 if !self.convolutions.is_empty() => {
                let which = choices.below(self.convolutions.len());
                set_convolution(&self.convolutions[which], choices);
            }
            _ if self.tensors.len() >= 3 && !self.convolutions.is_empty() => self.ask(choices),
            _ => {}
        }
    }

    /// What three tensors and a convolution come to.
    fn ask(&self, choices: &mut Choices<'_>) {
        let [x, w, y] = [0; 3].map(|_| &self.tensors[choices.below(self.tensors.len())]);
        let convolution = &self.convolutions[choices.below(self.convolutions.len())];
        let mut dims = [[0 as c_int; 4]; 2];
        let mut statuses = [0; 2];
        for i in 0..2 {
            let [n, c, h, w_] = &mut dims[i];
            // SAFETY: live descriptors; the outputs are locals.
            statuses[i] = unsafe { LIBRARIES.output_dims[i](convolution.objects[i], x.objects[i], w.objects[i], n, c, h, w_) };
        }
        told("output_dims", convolution, &[format!("{:?} {:?}", x.objects[1], w.objects[1])], statuses[1]);
        assert_eq!((statuses[0], dims[0]), (statuses[1], dims[1]), "output_dims");
        if [x, w, y].iter().all(|tensor| tensor.small) {
            self.execute([x, w, y], convolution, choices);
        }
    }

    fn execute(&self, tensors: [&Descriptor; 3], convolution: &Descriptor, choices: &mut Choices<'_>) {
        // Five lengths of at most 6, of at most 8 bytes.
        const BYTES: usize = 8 * 6usize.pow(5);
        let (alpha, beta) = (choices.one(&[1.0f32, 2.0, 0.0]), choices.one(&[0.0f32, 1.0]));
        let algorithm = choices.between(0, 6) as c_int;
        let statuses = [0, 1].map(|i| {
            let mut memory = [0; 3].map(|_| vec![0u64; BYTES / 8]);
            let [x, w, y] = &mut memory;
            let handle = std::ptr::with_exposed_provenance_mut(LIBRARIES.handles[i]);
            let [of_x, of_w, of_y] = tensors.map(|tensor| tensor.objects[i]);
            let (x, w, y) = (x.as_ptr().cast(), w.as_ptr().cast(), y.as_mut_ptr().cast());
            // SAFETY: live descriptors, and memory for the largest tensors that are small. Without a stream, the reference HIP's null
            // stream is waited for by what is asked next.
            let status = unsafe {
                LIBRARIES.forward[i](handle, &alpha, of_x, x, of_w, w, convolution.objects[i], algorithm, &beta, of_y, y, null_mut(), 0)
            };
            synchronize();
            status
        });
        if statuses[1] == 0 {
            COUNTERS.past();
        }
        // The shim may compute what native does not; what native computes, it computes.
        assert!(statuses[0] == statuses[1] || statuses[1] != 0, "native answers {}, the shim {}", statuses[1], statuses[0]);
    }
}

/// Work is queued: memory must live until it is done.
fn synchronize() {
    static SYNCHRONIZE: LazyLock<unsafe extern "C" fn() -> c_int> = LazyLock::new(|| {
        // SAFETY: the process has it; the function has this type in every release.
        unsafe { *Library::this().get(b"hipDeviceSynchronize\0").expect("hipDeviceSynchronize") }
    });
    // SAFETY: takes nothing.
    assert_eq!(unsafe { SYNCHRONIZE() }, 0);
}

fn set_tensor(tensor: &mut Descriptor, choices: &mut Choices<'_>) {
    let data_type = choices.one(&[1, 0, 5, 3, 2, 6, 7, 4, 99, -1]);
    match choices.below(5) {
        0 => {
            let [n, c, h, w] = [0; 4].map(|_| number(choices));
            if same!(set_4d(tensor, data_type, n, c, h, w)) == 0 {
                tensor.small = [n, c, h, w].iter().all(|length| (1..=6).contains(length));
            }
        }
        1 | 2 => {
            let dims = [0; 8].map(|_| number(choices));
            let strides = [0; 8].map(|_| number(choices));
            let count = choices.between(0, 6) as c_int;
            let strides = if choices.percent(50) { strides.as_ptr() } else { std::ptr::null() };
            if same!(set_nd(tensor, data_type, count, dims.as_ptr(), strides)) == 0 {
                let packed = strides.is_null() && count <= 5 && dims[..count as usize].iter().all(|length| (1..=6).contains(length));
                tensor.small = packed;
            }
        }
        3 => drop(same!(set_cast(tensor, data_type))),
        _ => {
            same_value!(tensor_size, tensor, -1);
            same_value!(tensor_bytes, tensor, usize::MAX);
        }
    }
}

fn set_convolution(convolution: &Descriptor, choices: &mut Choices<'_>) {
    let mut list = || [0; 8].map(|_| number(choices));
    let (pads, strides, dilations) = (list().map(|pad| pad.wrapping_sub(1)), list(), list());
    let count = choices.between(0, 4) as c_int;
    match choices.below(5) {
        0 => {
            let mode = choices.between(-1, 4) as c_int;
            same!(init_2d(convolution, mode, pads[0], pads[1], strides[0], strides[1], dilations[0], dilations[1]));
        }
        1 => {
            let mode = choices.between(-1, 4) as c_int;
            same!(init_nd(convolution, count, pads.as_ptr(), strides.as_ptr(), dilations.as_ptr(), mode));
        }
        2 => {
            let groups = number(choices);
            same!(set_groups(convolution, groups));
        }
        3 => drop(same!(set_output_pads(convolution, count, pads.as_ptr()))),
        _ => {
            let (number, value) = (choices.between(-1, 5) as c_int, choices.between(-1, 2) as c_int);
            same!(set_attribute(convolution, number, value));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    COUNTERS.input();
    let choices = &mut Choices::of_bytes(data);
    let mut world = World::default();
    for _ in 0..data.len().min(64) {
        world.step(choices);
    }
    for tensor in world.tensors {
        same!(destroy_tensor(&tensor));
    }
    for convolution in world.convolutions {
        same!(destroy_convolution(&convolution));
    }
});
