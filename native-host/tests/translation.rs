//! The embedded component, through wasm: every rule for convolutions of its manifest is hit by a case, good problems become graphs that
//! validate, and nothing is imported.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use hipdnn_abi::{attribute, descriptor_type};
use hipdnn_host::{
    capabilities::Capabilities,
    component::{EMBEDDED, Translator, interface_of},
    data_type::DataType,
    graph::{Access, ReceivedDecline, ReceivedGraph, Value},
    judge::arguments,
    problem::{
        ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, Problem, TensorDescriptor,
        TensorLayout,
    },
    validate::validate,
};

/// A tensor that a case may bend.
#[derive(Clone)]
struct Tensor {
    data_type: DataType,
    cast: Option<DataType>,
    dims: Vec<i64>,
    strides: Vec<i64>,
    vector: u32,
    layout: Option<TensorLayout>,
}

/// A problem that a case may bend: x {2,4,8,8}, w {4,4,3,3}, pads 1.
#[derive(Clone)]
struct Case {
    direction: ConvolutionDirection,
    fields: ConvolutionFields,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    alpha: f64,
    beta: f64,
    algorithm: Option<u32>,
    capabilities: Capabilities,
}

fn packed(dims: &[i64]) -> Tensor {
    let strides = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    Tensor { data_type: DataType::Float, cast: None, dims: dims.to_vec(), strides, vector: 1, layout: None }
}

fn good() -> Case {
    Case {
        direction: ConvolutionDirection::Forward,
        fields: ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]),
        x: packed(&[2, 4, 8, 8]),
        w: packed(&[4, 4, 3, 3]),
        y: packed(&[2, 4, 8, 8]),
        alpha: 1.0,
        beta: 0.0,
        algorithm: None,
        capabilities: Capabilities::whole_abi(),
    }
}

impl Case {
    fn translate(&self, translator: &Translator) -> Result<ReceivedGraph, ReceivedDecline> {
        let tensor = |t: &Tensor| TensorDescriptor::new(t.data_type, t.cast, &t.dims, &t.strides, t.vector, t.layout).unwrap();
        let (x, w, y) = (tensor(&self.x), tensor(&self.w), tensor(&self.y));
        let convolution = ConvolutionDescriptor::new(self.fields.clone()).unwrap();
        let problem = ConvolutionProblem {
            direction: self.direction,
            convolution: &convolution,
            x: &x,
            w: &w,
            y: &y,
            alpha: self.alpha,
            beta: self.beta,
            algorithm: self.algorithm,
        };
        let problem = Problem::Convolution(problem);
        let reply = translator.translate(&problem, &self.capabilities).unwrap();
        if let Ok(graph) = &reply {
            validate(graph.clone(), &arguments(&problem).unwrap()).unwrap();
        }
        reply
    }
}

/// A case to bend, and how.
type Bend = fn(&mut Case);

/// One bend for each rule, or several where a rule has several sides.
const DECLINES: &[(&str, Bend)] = &[
    ("conv.backend.operation", |c| c.capabilities.operations.clear()),
    ("conv.backend.operation", |c| {
        c.direction = ConvolutionDirection::BackwardData;
        c.capabilities.operations.retain(|kind| *kind != descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    }),
    ("conv.mode.unrecognized", |c| c.fields.mode = ConvolutionMode::Unrecognized),
    ("conv.scaling.alpha", |c| (c.alpha, c.beta, c.y.data_type) = (2.0, 1.0, DataType::Int32)),
    ("conv.scaling.alpha", |c| {
        c.alpha = f64::NAN;
        c.capabilities.operations.retain(|kind| *kind != descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    }),
    ("conv.scaling.alpha", |c| {
        typed(c, DataType::Half);
        c.alpha = 2.0;
        c.capabilities.data_types.retain(|offered| *offered != DataType::Float);
    }),
    ("conv.scaling.beta", |c| {
        typed(c, DataType::Int8);
        c.beta = 1.0;
    }),
    ("conv.scaling.beta", |c| {
        c.beta = f64::NAN;
        c.capabilities.operations.retain(|kind| *kind != descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    }),
    ("tensor.layout.vectorized", |c| (c.x.vector, c.x.layout) = (4, Some(TensorLayout::Nchwc4))),
    ("tensor.type.counterpart", |c| c.w.data_type = DataType::Int8x4),
    ("tensor.type.counterpart", |c| c.y.data_type = DataType::Unrecognized),
    ("tensor.type.cast", |c| c.x.cast = Some(DataType::Float8E4M3Fnuz)),
    ("tensor.type.backend", |c| c.capabilities.data_types.clear()),
    ("tensor.dims.empty", |c| c.x.dims[0] = 0),
    ("tensor.dims.empty", |c| c.y.dims[3] = -1),
    ("tensor.dims.empty", |c| c.w = packed(&[])),
    ("conv.rank.mismatch", |c| c.w = packed(&[4, 4, 3])),
    ("conv.rank.mismatch", |c| c.fields.pads = vec![1]),
    ("conv.rank.mismatch", |c| c.fields.strides = vec![1; 3]),
    ("conv.rank.spatial", |c| spatial(c, 0)),
    ("conv.rank.spatial", |c| spatial(c, 6)),
    ("tensor.strides.positive", |c| c.x.strides[1] = 0),
    ("tensor.strides.positive", |c| c.w.strides[0] = -9),
    ("tensor.strides.overlap", |c| c.y.strides = vec![256, 63, 8, 1]),
    // It is the result that must not overlap, whichever tensor that is.
    ("tensor.strides.overlap", |c| (c.direction, c.x.strides) = (ConvolutionDirection::BackwardData, vec![256, 63, 8, 1])),
    ("tensor.strides.overlap", |c| (c.direction, c.w.strides) = (ConvolutionDirection::BackwardWeights, vec![36, 8, 3, 1])),
    ("tensor.extent.range", |c| c.x.strides[0] = i64::MAX),
    ("conv.geometry.parameters", |c| c.fields.pads[0] = -1),
    ("conv.geometry.parameters", |c| c.fields.strides[0] = 0),
    ("conv.geometry.parameters", |c| c.fields.dilations[1] = 0),
    ("conv.groups.count", |c| c.fields.group_count = 0),
    ("conv.groups.count", |c| c.fields.group_count = -1),
    ("conv.groups.channels", |c| c.fields.group_count = 4),
    ("conv.groups.channels", |c| c.fields.group_count = i64::MAX),
    ("conv.groups.outputs", |c| {
        c.fields.group_count = 2;
        c.w = packed(&[3, 2, 3, 3]);
        c.y = packed(&[2, 3, 8, 8]);
    }),
    ("conv.output.geometry", |c| c.y = packed(&[2, 4, 8, 9])),
    ("conv.output.geometry", |c| c.y = packed(&[2, 5, 8, 8])),
    ("conv.output.geometry", |c| c.y = packed(&[3, 4, 8, 8])),
    // MIOpen clamps the length to 1 where the window does not fit; no graph computes that.
    ("conv.output.geometry", |c| {
        c.fields.dilations = vec![9, 9];
        c.y = packed(&[2, 4, 1, 1]);
    }),
    // A transposed convolution's output follows from its output pads, which must be below the stride.
    ("conv.output.geometry", |c| {
        transpose(c, 2, 1);
        c.y = packed(&[2, 4, 15, 15]);
    }),
    ("conv.output.geometry", |c| transpose(c, 2, 2)),
    ("conv.output.geometry", |c| transpose(c, 2, -1)),
    ("conv.output.geometry", |c| {
        transpose(c, 2, 1);
        c.fields.output_pads = vec![1];
    }),
    ("conv.groups.channels", |c| {
        transpose(c, 1, 0);
        c.fields.group_count = 2;
    }),
    ("conv.attribute.deterministic", |c| c.fields.attributes = vec![(1, 1)]),
    ("conv.attribute.fp16-alternative", |c| {
        c.fields.attributes = vec![(0, 1)];
        typed(c, DataType::Half);
    }),
    ("conv.attribute.fp8-rounding", |c| c.y.data_type = DataType::Float8E4M3Fnuz),
    ("conv.attribute.unknown", |c| c.fields.attributes = vec![(17, 0)]),
];

fn spatial(case: &mut Case, rank: usize) {
    let dims = |n: i64, c: i64, length: i64| packed(&[vec![n, c], vec![length; rank]].concat());
    (case.x, case.w, case.y) = (dims(2, 4, 2), dims(4, 4, 1), dims(2, 4, 2));
    let fields = &mut case.fields;
    (fields.pads, fields.strides, fields.dilations, fields.output_pads) = (vec![0; rank], vec![1; rank], vec![1; rank], vec![0; rank]);
}

fn typed(case: &mut Case, data_type: DataType) {
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.data_type = data_type;
    }
}

/// Turns a case into a transposed convolution with the output that MIOpen would give it.
fn transpose(case: &mut Case, stride: i64, output_pad: i64) {
    case.fields.mode = ConvolutionMode::Transpose;
    (case.fields.strides, case.fields.output_pads) = (vec![stride; 2], vec![output_pad; 2]);
    let length = stride * (case.x.dims[2] - 1) + 3 - 2 + output_pad;
    case.y = packed(&[2, 4, length, length]);
}

#[test]
fn every_rule_declines_what_it_says() {
    let translator = Translator::embedded().unwrap();
    for (rule, bend) in DECLINES {
        let mut case = good();
        bend(&mut case);
        let decline = case.translate(&translator).expect_err(rule);
        assert_eq!(decline.rule, *rule, "{}", decline.message);
        assert!(!decline.message.is_empty());
    }
    // Those of chains are `chains.rs`'s.
    let rules = translator.description().rules.iter().map(|rule| rule.id.as_str());
    let listed: BTreeSet<&str> = rules.filter(|id| !id.starts_with("fusion.")).collect();
    let tested: BTreeSet<&str> = DECLINES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(listed, tested, "every rule has a case, every case a rule");
}

#[test]
fn what_fits_is_translated() {
    let accepted: &[(&str, Bend)] = &[
        ("plain", |_| {}),
        ("groups", |c| {
            c.fields.group_count = 2;
            c.w = packed(&[4, 2, 3, 3]);
        }),
        ("depthwise", |c| {
            c.fields.group_count = 4;
            c.w = packed(&[4, 1, 3, 3]);
        }),
        ("mode group-conv", |c| c.fields.mode = ConvolutionMode::GroupConv),
        ("channel last", |c| {
            c.x.strides = vec![256, 1, 32, 4];
            c.y.strides = vec![256, 1, 32, 4];
        }),
        ("padded rows", |c| c.y.strides = vec![512, 128, 16, 1]),
        ("1-D", |c| spatial(c, 1)),
        ("3-D", |c| spatial(c, 3)),
        ("4-D, left to the engine search", |c| spatial(c, 4)),
        ("5-D, left to the engine search", |c| spatial(c, 5)),
        ("-0 is 0", |c| c.beta = -0.0),
        ("alpha", |c| c.alpha = 2.0),
        ("alpha NaN", |c| c.alpha = f64::NAN),
        ("beta 1", |c| c.beta = 1.0),
        ("beta infinite", |c| c.beta = f64::INFINITY),
        ("alpha and beta, channel last", |c| {
            (c.alpha, c.beta) = (0.5, -2.0);
            c.x.strides = vec![256, 1, 32, 4];
            c.y.strides = vec![256, 1, 32, 4];
        }),
        ("alpha and beta, transposed", |c| {
            transpose(c, 3, 2);
            (c.alpha, c.beta) = (0.0, 1.0);
        }),
        ("alpha and beta, 3-D", |c| {
            spatial(c, 3);
            (c.alpha, c.beta) = (2.0, 3.0);
        }),
        ("attributes that ask for nothing", |c| c.fields.attributes = vec![(0, -1), (1, 0), (2, 1), (3, 0)]),
        ("cast to its own type", |c| c.x.cast = Some(DataType::Float)),
        ("mixed types", |c| {
            (c.x.data_type, c.w.data_type, c.y.data_type) = (DataType::Int8, DataType::Int8, DataType::Int32);
        }),
        ("an input that overlaps", |c| (c.direction, c.y.strides) = (ConvolutionDirection::BackwardData, vec![256, 63, 8, 1])),
        ("transposed", |c| transpose(c, 1, 0)),
        ("transposed, output pads", |c| transpose(c, 3, 2)),
        ("per-axis geometry", |c| {
            (c.x, c.w, c.y) = (packed(&[2, 4, 9, 13]), packed(&[4, 4, 3, 5]), packed(&[2, 4, 5, 9]));
            (c.fields.pads, c.fields.strides, c.fields.dilations) = (vec![1, 2], vec![2, 1], vec![1, 2]);
        }),
    ];
    let translator = Translator::embedded().unwrap();
    for (name, bend) in accepted {
        let mut case = good();
        bend(&mut case);
        assert!(case.translate(&translator).is_ok(), "{name}: {:?}", case.translate(&translator));
    }
}

#[test]
fn alpha_and_beta_are_operations_behind_the_convolution() {
    use ConvolutionDirection::{BackwardData, BackwardWeights, Forward};
    let translator = Translator::embedded().unwrap();
    for direction in [Forward, BackwardData, BackwardWeights] {
        for data_type in [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double] {
            // Nodes, and tensors bound for reading: x and w or their like, and the old result where beta is not 0.
            for (alpha, beta, expected) in
                [(1.0, 0.0, (1, 2)), (2.0, 0.0, (2, 2)), (1.0, 1.0, (2, 3)), (2.0, 1.0, (3, 3)), (1.0, 2.0, (3, 3)), (0.5, 2.0, (4, 3))]
            {
                let mut case = Case { direction, alpha, beta, ..good() };
                typed(&mut case, data_type);
                let graph = case.translate(&translator).unwrap();
                let read = graph.bindings.iter().filter(|binding| binding.access == Access::Read).count();
                assert_eq!((graph.nodes.len(), read), expected, "{direction:?} {data_type:?} alpha {alpha} beta {beta}");
            }
        }
    }
}

/// What a graph says: the operation, its attributes, and what it writes.
fn operation(graph: &ReceivedGraph) -> (i32, u32) {
    let written = graph.bindings.iter().filter(|binding| binding.access == Access::Write).map(|binding| binding.argument);
    (graph.nodes[0].operation, written.sum())
}

#[test]
fn directions_and_modes_choose_the_operation() {
    use ConvolutionDirection::{BackwardData, BackwardWeights, Forward};
    use descriptor_type::{
        BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR as DATA, BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR as FILTER,
        BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR as FORWARD,
    };
    let translator = Translator::embedded().unwrap();
    let (x, w, y) = (0, 1, 2);
    for (direction, transposed, expected) in [
        (Forward, false, (FORWARD, y)),
        (BackwardData, false, (DATA, x)),
        (BackwardWeights, false, (FILTER, w)),
        (Forward, true, (DATA, y)),
        (BackwardData, true, (FORWARD, x)),
        (BackwardWeights, true, (FILTER, w)),
    ] {
        let mut case = good();
        if transposed {
            transpose(&mut case, 2, 1);
        }
        case.direction = direction;
        assert_eq!(operation(&case.translate(&translator).unwrap()), expected, "{direction:?} transposed {transposed}");
    }
}

#[test]
fn a_transposed_convolution_whose_pads_leave_nothing_is_padded_behind() {
    // x 4 wide, window 1, pads 2: 4 - 4 = 0, which MIOpen raises to 1. That element meets all 4 windows with one element behind it.
    let mut case = good();
    (case.x, case.w, case.y) = (packed(&[2, 4, 4, 4]), packed(&[4, 4, 1, 1]), packed(&[2, 4, 1, 1]));
    (case.fields.mode, case.fields.pads) = (ConvolutionMode::Transpose, vec![2, 2]);
    let graph = case.translate(&Translator::embedded().unwrap()).unwrap();
    let padding = |number| graph.nodes[0].attributes.iter().find(|a| a.number == number).unwrap().value.clone();
    assert_eq!(padding(attribute::CONVOLUTION_PRE_PADDINGS), Value::Integers(vec![2, 2]));
    assert_eq!(padding(attribute::CONVOLUTION_POST_PADDINGS), Value::Integers(vec![1, 1]));
}

#[test]
fn an_ignored_algorithm_is_noted() {
    let translator = Translator::embedded().unwrap();
    assert!(good().translate(&translator).unwrap().notes.is_empty());
    let named = Case { algorithm: Some(1), ..good() }.translate(&translator).unwrap();
    assert_eq!(named.notes, ["conv.algorithm.ignored"]);
    // The algorithm under which Find lists hipDNN's plans is not ignored.
    assert!(Case { algorithm: Some(5), ..good() }.translate(&translator).unwrap().notes.is_empty());
    assert!(translator.description().notes.iter().any(|note| note.id == "conv.algorithm.ignored"));
}

#[test]
fn integers_are_summed_as_integers() {
    let mut case = good();
    (case.x.data_type, case.w.data_type, case.y.data_type) = (DataType::Int8, DataType::Int8, DataType::Int32);
    let graph = case.translate(&Translator::embedded().unwrap()).unwrap();
    assert_eq!(graph.compute_type, Some(DataType::Int32));
    let sum = attribute::CONVOLUTION_COMP_TYPE;
    let attribute = graph.nodes[0].attributes.iter().find(|a| a.number == sum).unwrap();
    assert_eq!(attribute.value, Value::DataType(DataType::Int32));
}

#[test]
fn the_built_component_imports_nothing() {
    let interface = interface_of(EMBEDDED).unwrap();
    assert_eq!(interface.imports, Vec::<String>::new());
    let exports = ["manifest@1.0.0", "conv@1.0.0", "fusion@1.0.0", "activation@1.1.0"];
    for export in exports.map(|name| format!("miopen-hipdnn:translator/{name}")) {
        assert!(interface.exports.contains(&export), "{:?}", interface.exports);
    }
}

#[test]
fn the_compiled_component_answers_like_the_precompiled_one() {
    let (embedded, compiled) = (Translator::embedded().unwrap(), Translator::compile(EMBEDDED).unwrap());
    assert_eq!(embedded.description(), compiled.description());
    for (_, bend) in DECLINES {
        let mut case = good();
        bend(&mut case);
        assert_eq!(case.translate(&embedded), case.translate(&compiled));
    }
    assert_eq!(good().translate(&embedded), good().translate(&compiled));
}

#[test]
fn what_is_no_component_is_refused_before_compiling() {
    for bytes in [&b""[..], b"not wasm", b"\0asm\x01\0\0\0", &EMBEDDED[..EMBEDDED.len() / 2]] {
        assert!(Translator::compile(bytes).is_err());
    }
}

/// What the process does about the signals of faults, and the thread's alternate stack.
fn signal_state() -> ([usize; 5], usize, usize, i32) {
    let signals = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    let dispositions = signals.map(|signal| {
        // SAFETY: plain data, written by sigaction; no new action is given.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
        old.sa_sigaction
    });
    // SAFETY: plain data, written by sigaltstack; no new stack is given.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    (dispositions, stack.ss_sp as usize, stack.ss_size, stack.ss_flags)
}

#[test]
fn running_it_leaves_the_process_alone() {
    let before = signal_state();
    good().translate(&Translator::embedded().unwrap()).unwrap();
    assert_eq!(signal_state(), before);
}

/// The translator with other instructions at the beginning of every function that has room for them.
fn with_functions_that(begin: &[u8]) -> Vec<u8> {
    let (mut wasm, mut changed) = (EMBEDDED.to_vec(), 0);
    for payload in wasmparser::Parser::new(0).parse_all(EMBEDDED) {
        let wasmparser::Payload::CodeSectionEntry(body) = payload.unwrap() else { continue };
        let room = &mut wasm[body.range()];
        let Some(last) = room.len().checked_sub(1).filter(|length| *length >= 64) else { continue };
        room.fill(NOP);
        room[0] = 0; // no locals
        room[1..=begin.len()].copy_from_slice(begin);
        room[begin.len() + 1] = UNREACHABLE;
        room[last] = END;
        changed += 1;
    }
    assert!(changed > 0);
    wasm
}

const UNREACHABLE: u8 = 0x00;
const NOP: u8 = 0x01;
const END: u8 = 0x0b;

// V54 of the case list.
#[test]
fn traps_of_a_component_are_errors_and_raise_no_signal() {
    let divide: &[u8] = &[0x41, 1, 0x41, 0, 0x6e, 0x1a];
    let load: &[u8] = &[0x41, 0x7f, 0x28, 2, 0, 0x1a];
    let for_ever: &[u8] = &[0x03, 0x40, 0x0c, 0, 0x0b];
    let before = signal_state();
    for (begin, says) in [(&[][..], "unreachable"), (divide, "divide by zero"), (load, "out of bounds"), (for_ever, "fuel")] {
        let error = Translator::compile(&with_functions_that(begin)).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(says)), "{says}: {error:?}");
        assert_eq!(signal_state(), before, "{says}");
    }
}
