//! Operations that are not convolutions: softmax, tensor operations, batch normalisation, RNN, dropout. Nothing of them is forwarded; cases
//! see that they stay as they are.

use std::{
    ffi::{c_float, c_int, c_ulonglong, c_void},
    ptr::null_mut,
};

use anyhow::Result;
use libloading::os::unix::Library;
use miopen_api::{batch_norm_mode, rng_type, rnn_algo, rnn_bias_mode, rnn_input_mode, softmax_algorithm, softmax_mode, tensor_op};

use super::{Memory, MiOpen, Object, Owned, Scalar, Status, functions};

type Rnn = unsafe extern "C" fn(
    Object,
    Object,
    c_int,
    *const Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    *const Object,
    *mut c_void,
    Object,
    *mut c_void,
    Object,
    *mut c_void,
    *mut c_void,
    usize,
    *mut c_void,
    usize,
) -> c_int;
type RnnBackward = unsafe extern "C" fn(
    Object,
    Object,
    c_int,
    *const Object,
    *const c_void,
    *const Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    *const Object,
    *mut c_void,
    Object,
    *mut c_void,
    Object,
    *mut c_void,
    *mut c_void,
    usize,
    *mut c_void,
    usize,
) -> c_int;
type BatchNorm = unsafe extern "C" fn(
    Object,
    c_int,
    *mut c_void,
    *mut c_void,
    Object,
    *const c_void,
    Object,
    *mut c_void,
    Object,
    *mut c_void,
    *mut c_void,
    f64,
    *mut c_void,
    *mut c_void,
    f64,
    *mut c_void,
    *mut c_void,
) -> c_int;
type SetDropout = unsafe extern "C" fn(Object, Object, c_float, *mut c_void, usize, c_ulonglong, bool, bool, c_int) -> c_int;

functions! {
    Table {
        softmax "miopenSoftmaxForward_V2" (Object, *const c_void, Object, *const c_void, *const c_void, Object, *mut c_void, c_int, c_int);
        op_tensor "miopenOpTensor"
            (Object, c_int, *const c_void, Object, *const c_void, *const c_void, Object, *const c_void, *const c_void, Object, *mut c_void);
        derive_bn "miopenDeriveBNTensorDescriptor" (Object, Object, c_int);
        create_rnn "miopenCreateRNNDescriptor" (*mut Object);
        destroy_rnn "miopenDestroyRNNDescriptor" (Object);
        set_rnn "miopenSetRNNDescriptor_V2" (Object, c_int, c_int, Object, c_int, c_int, c_int, c_int, c_int, c_int);
        set_rnn_v1 "miopenSetRNNDescriptor" (Object, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int);
        rnn_workspace "miopenGetRNNWorkspaceSize" (Object, Object, c_int, *const Object, *mut usize);
        rnn_reserve "miopenGetRNNTrainingReserveSize" (Object, Object, c_int, *const Object, *mut usize);
        rnn_parameters "miopenGetRNNParamsSize" (Object, Object, Object, *mut usize, c_int);
        create_dropout "miopenCreateDropoutDescriptor" (*mut Object);
        destroy_dropout "miopenDestroyDropoutDescriptor" (Object);
        dropout_states "miopenDropoutGetStatesSize" (Object, *mut usize);
    }
}

pub(super) struct Functions {
    table: Table,
    batch_norm: BatchNorm,
    rnn_forward: Rnn,
    rnn_backward: RnnBackward,
    set_dropout: SetDropout,
    restore_dropout: SetDropout,
}

impl Functions {
    pub(super) fn resolve(library: &Library) -> Result<Self> {
        Ok(Self {
            table: Table::resolve(library)?,
            batch_norm: super::symbol(library, "miopenBatchNormalizationForwardTraining")?,
            rnn_forward: super::symbol(library, "miopenRNNForwardTraining")?,
            rnn_backward: super::symbol(library, "miopenRNNBackwardData")?,
            set_dropout: super::symbol(library, "miopenSetDropoutDescriptor")?,
            restore_dropout: super::symbol(library, "miopenRestoreDropoutDescriptor")?,
        })
    }
}

/// A tensor: descriptor, memory, where in it the first element is.
pub type Operand<'a> = (&'a Owned, &'a Memory, usize);

fn address((_, memory, offset): Operand<'_>) -> *mut c_void {
    memory.at(offset)
}

/// The tensors of a batch normalisation's training pass; all but x and y have the derived descriptor.
pub struct BatchNormTensors<'a> {
    /// Input.
    pub x: Operand<'a>,
    /// Output.
    pub y: Operand<'a>,
    /// Derived descriptor.
    pub derived: &'a Owned,
    /// Scale, bias, running mean, running variance, saved mean, saved inverse variance.
    pub parameters: [(&'a Memory, usize); 6],
}

/// What an RNN is.
#[derive(Clone, Copy)]
pub struct RnnShape {
    /// Hidden size.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// `miopenRNNMode_t`
    pub mode: i32,
    /// `miopenRNNDirectionMode_t`
    pub direction: i32,
    /// `miopenDataType_t`
    pub data_type: i32,
}

/// Descriptors of an RNN's calls: one for each time step for x and y, and one for all hidden states and the weights.
pub struct RnnDescriptors<'a> {
    /// The RNN.
    pub rnn: &'a Owned,
    /// Of x, by time.
    pub x: Vec<&'a Owned>,
    /// Of y, by time.
    pub y: Vec<&'a Owned>,
    /// Of the hidden and cell states.
    pub hidden: &'a Owned,
    /// Of the weights.
    pub weights: &'a Owned,
}

/// Sizes that an RNN's queries answer, each with its status.
pub struct RnnSizes {
    /// Workspace, reserve space, weights.
    pub sizes: [(Status, usize); 3],
}

/// Dropout's state: probability, memory, seed.
#[derive(Clone, Copy)]
pub struct DropoutState<'a> {
    /// Probability.
    pub probability: f32,
    /// Memory of the generators.
    pub states: &'a Memory,
    /// Its size.
    pub size: usize,
    /// Seed.
    pub seed: u64,
    /// Whether a mask is given.
    pub use_mask: bool,
}

impl MiOpen {
    /// `miopenSoftmaxForward_V2`: accurate, over channels.
    pub fn softmax(&self, handle: &Owned, x: Operand<'_>, y: Operand<'_>) -> Status {
        let (one, zero) = (Scalar::Float(1.0), Scalar::Float(0.0));
        let (algorithm, mode) = (softmax_algorithm::ACCURATE, softmax_mode::CHANNEL);
        // SAFETY: all objects live; buffers hold what their descriptors say; the scalars are read during the call.
        Status(unsafe {
            (self.others.table.softmax)(
                handle.raw(),
                one.pointer(),
                x.0.raw(),
                address(x),
                zero.pointer(),
                y.0.raw(),
                address(y),
                algorithm,
                mode,
            )
        })
    }

    /// `miopenOpTensor`: c = a + b + beta c.
    pub fn add_tensors(&self, handle: &Owned, a: Operand<'_>, b: Operand<'_>, beta: f32, c: Operand<'_>) -> Status {
        let (one, beta) = (Scalar::Float(1.0), Scalar::Float(beta));
        // SAFETY: all objects live; buffers hold what their descriptors say; the scalars are read during the call.
        Status(unsafe {
            (self.others.table.op_tensor)(
                handle.raw(),
                tensor_op::ADD,
                one.pointer(),
                a.0.raw(),
                address(a),
                one.pointer(),
                b.0.raw(),
                address(b),
                beta.pointer(),
                c.0.raw(),
                address(c),
            )
        })
    }

    /// `miopenDeriveBNTensorDescriptor` for spatial mode.
    pub fn derive_batch_norm(&self, derived: &Owned, x: &Owned) -> Status {
        // SAFETY: both objects live.
        Status(unsafe { (self.others.table.derive_bn)(derived.raw(), x.raw(), batch_norm_mode::SPATIAL) })
    }

    /// `miopenBatchNormalizationForwardTraining`, spatial.
    pub fn batch_norm_training(&self, handle: &Owned, tensors: &BatchNormTensors<'_>, factor: f64, epsilon: f64) -> Status {
        let (mut one, mut zero) = (1f32, 0f32);
        let [scale, bias, mean, variance, saved_mean, saved_variance] = tensors.parameters.map(|(memory, offset)| memory.at(offset));
        // SAFETY: all objects live; buffers hold what their descriptors say; the scalars are read during the call.
        Status(unsafe {
            (self.others.batch_norm)(
                handle.raw(),
                batch_norm_mode::SPATIAL,
                (&raw mut one).cast(),
                (&raw mut zero).cast(),
                tensors.x.0.raw(),
                address(tensors.x),
                tensors.y.0.raw(),
                address(tensors.y),
                tensors.derived.raw(),
                scale,
                bias,
                factor,
                mean,
                variance,
                epsilon,
                saved_mean,
                saved_variance,
            )
        })
    }

    /// An RNN descriptor, with dropout or without.
    pub fn rnn(&self, shape: RnnShape, dropout: Option<&Owned>) -> (Status, Option<Owned>) {
        let f = &self.others.table;
        let mut rnn = null_mut();
        // SAFETY: `rnn` is writable.
        let status = Status(unsafe { (f.create_rnn)(&mut rnn) });
        if !status.is_success() {
            return (status, None);
        }
        let rnn = Owned::adopt(rnn, f.destroy_rnn);
        let (hidden, layers) = (shape.hidden as c_int, shape.layers as c_int);
        let (input, bias, algorithm) = (rnn_input_mode::LINEAR, rnn_bias_mode::WITH_BIAS, rnn_algo::DEFAULT);
        // SAFETY: all objects live.
        let status = unsafe {
            match dropout {
                None => (f.set_rnn_v1)(rnn.raw(), hidden, layers, input, shape.direction, shape.mode, bias, algorithm, shape.data_type),
                Some(dropout) => (f.set_rnn)(
                    rnn.raw(),
                    hidden,
                    layers,
                    dropout.raw(),
                    input,
                    shape.direction,
                    shape.mode,
                    bias,
                    algorithm,
                    shape.data_type,
                ),
            }
        };
        (Status(status), Some(rnn))
    }

    /// Workspace, reserve space and weights of an RNN. The arrays of descriptors are on the stack, as programs have them.
    pub fn rnn_sizes(&self, handle: &Owned, descriptors: &RnnDescriptors<'_>, data_type: i32) -> RnnSizes {
        let f = &self.others.table;
        let x: Vec<Object> = descriptors.x.iter().map(|descriptor| descriptor.raw()).collect();
        let (rnn, steps) = (descriptors.rnn.raw(), x.len() as c_int);
        let [mut workspace, mut reserve, mut parameters] = [0; 3];
        // SAFETY: all objects live; the array has as many entries as the calls are told; the sizes are writable.
        let statuses = unsafe {
            [
                (f.rnn_workspace)(handle.raw(), rnn, steps, x.as_ptr(), &mut workspace),
                (f.rnn_reserve)(handle.raw(), rnn, steps, x.as_ptr(), &mut reserve),
                (f.rnn_parameters)(handle.raw(), rnn, x.first().copied().unwrap_or(null_mut()), &mut parameters, data_type),
            ]
        };
        let [a, b, c] = statuses.map(Status);
        RnnSizes { sizes: [(a, workspace), (b, reserve), (c, parameters)] }
    }

    /// `miopenRNNForwardTraining`; memory of x, hx, cx, w, y, hy, cy, workspace, reserve space.
    pub fn rnn_forward(&self, handle: &Owned, descriptors: &RnnDescriptors<'_>, memory: [&Memory; 9], sizes: [usize; 2]) -> Status {
        let x: Vec<Object> = descriptors.x.iter().map(|descriptor| descriptor.raw()).collect();
        let y: Vec<Object> = descriptors.y.iter().map(|descriptor| descriptor.raw()).collect();
        let (hidden, weights) = (descriptors.hidden.raw(), descriptors.weights.raw());
        let [mx, mhx, mcx, mw, my, mhy, mcy, workspace, reserve] = memory.map(|memory| memory.at(0));
        // SAFETY: all objects live; arrays have as many entries as the call is told; buffers hold what descriptors and queries said.
        Status(unsafe {
            (self.others.rnn_forward)(
                handle.raw(),
                descriptors.rnn.raw(),
                x.len() as c_int,
                x.as_ptr(),
                mx,
                hidden,
                mhx,
                hidden,
                mcx,
                weights,
                mw,
                y.as_ptr(),
                my,
                hidden,
                mhy,
                hidden,
                mcy,
                workspace,
                sizes[0],
                reserve,
                sizes[1],
            )
        })
    }

    /// `miopenRNNBackwardData`; memory of y, dy, dhy, dcy, w, hx, cx, dx, dhx, dcx, workspace, reserve space.
    pub fn rnn_backward(&self, handle: &Owned, descriptors: &RnnDescriptors<'_>, memory: [&Memory; 12], sizes: [usize; 2]) -> Status {
        let x: Vec<Object> = descriptors.x.iter().map(|descriptor| descriptor.raw()).collect();
        let y: Vec<Object> = descriptors.y.iter().map(|descriptor| descriptor.raw()).collect();
        let (hidden, weights) = (descriptors.hidden.raw(), descriptors.weights.raw());
        let [my, mdy, mdhy, mdcy, mw, mhx, mcx, mdx, mdhx, mdcx, workspace, reserve] = memory.map(|memory| memory.at(0));
        // SAFETY: as above.
        Status(unsafe {
            (self.others.rnn_backward)(
                handle.raw(),
                descriptors.rnn.raw(),
                x.len() as c_int,
                y.as_ptr(),
                my,
                y.as_ptr(),
                mdy,
                hidden,
                mdhy,
                hidden,
                mdcy,
                weights,
                mw,
                hidden,
                mhx,
                hidden,
                mcx,
                x.as_ptr(),
                mdx,
                hidden,
                mdhx,
                hidden,
                mdcx,
                workspace,
                sizes[0],
                reserve,
                sizes[1],
            )
        })
    }

    /// A dropout descriptor that is not set.
    pub fn dropout(&self) -> Result<Owned> {
        let f = &self.others.table;
        Owned::create("miopenCreateDropoutDescriptor", f.create_dropout, f.destroy_dropout)
    }

    /// `miopenDropoutGetStatesSize`
    pub fn dropout_states_size(&self, handle: &Owned) -> (Status, usize) {
        let mut size = 0;
        // SAFETY: the handle lives, `size` is writable.
        (Status(unsafe { (self.others.table.dropout_states)(handle.raw(), &mut size) }), size)
    }

    /// `miopenSetDropoutDescriptor`, or with `restore` the call that leaves the states as they are.
    pub fn set_dropout(&self, dropout: &Owned, handle: &Owned, state: DropoutState<'_>, restore: bool) -> Status {
        let call = if restore { self.others.restore_dropout } else { self.others.set_dropout };
        // SAFETY: both objects live; the states are as large as the call is told.
        Status(unsafe {
            call(
                dropout.raw(),
                handle.raw(),
                state.probability,
                state.states.at(0),
                state.size,
                state.seed,
                state.use_mask,
                false,
                rng_type::PSEUDO_XORWOW,
            )
        })
    }
}
