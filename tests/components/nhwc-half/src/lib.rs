//! A translator that forwards nothing but forward convolutions of half precision in NHWC.
use hipdnn_abi::{attribute as a, convolution_mode, descriptor_type as d};

wit_bindgen::generate!({
    path: "../../../wit/translator.wit",
    inline: "package example:nhwc-half;
        world translator {
            export miopen-hipdnn:translator/graph@1.0.0;
            export miopen-hipdnn:translator/manifest@1.0.0;
            export miopen-hipdnn:translator/conv@1.0.0;
        }",
});
use exports::miopen_hipdnn::translator::{conv, conv::Problem, graph::*, manifest};

/// Id, reason, and whether a problem passes.
type Rule = (&'static str, &'static str, fn(&Problem) -> bool);

/// In the order in which they are tried: each may rely on those before it.
const RULES: &[Rule] = &[
    ("nhwc-half.direction", "not the forward direction of an ordinary convolution without groups", |p| {
        p.direction == conv::Direction::Forward && p.mode == conv::Mode::Convolution && p.group_count == 1
    }),
    ("nhwc-half.type", "a tensor that is not half precision, or is cast", |p| {
        tensors(p).iter().all(|t| t.data_type == DataType::Half && t.cast_type.is_none_or(|cast| cast == DataType::Half))
    }),
    ("nhwc-half.layout", "a tensor that is not packed in NHWC", |p| tensors(p).iter().all(|t| is_nhwc(t))),
    ("nhwc-half.scalars", "alpha is not 1, or beta is not 0", |p| p.alpha == 1.0 && p.beta == 0.0),
    ("nhwc-half.attributes", "an attribute was set", |p| p.attributes.is_empty()),
    ("nhwc-half.lengths", "y does not follow from x and w", fits),
];

fn tensors(p: &Problem) -> [&TensorDescriptor; 3] {
    [&p.x, &p.w, &p.y]
}

fn is_nhwc(t: &TensorDescriptor) -> bool {
    let [n, c, h, w] = t.dims[..] else { return false };
    // Beyond this nothing is convolved, and products of four lengths fit easily.
    let lengths = [n, c, h, w].iter().all(|length| (1..1 << 15).contains(length));
    // The stride along a single element means nothing.
    let mut strides = [h * w * c, 1, w * c, c].into_iter().zip(&t.strides).zip(&t.dims);
    lengths && t.vector_length == 1 && t.strides.len() == 4 && strides.all(|((nhwc, own), length)| nhwc == *own || *length == 1)
}

fn fits(p: &Problem) -> bool {
    let (x, w, y) = (&p.x.dims, &p.w.dims, &p.y.dims);
    let lists = [(&p.pads, 0), (&p.strides, 1), (&p.dilations, 1)];
    let small = lists.iter().all(|(list, least)| list.len() == 2 && list.iter().all(|value| (*least..1 << 15).contains(value)));
    let windows = |i: usize| {
        let room = x[i + 2] + 2 * p.pads[i] - p.dilations[i] * (w[i + 2] - 1) - 1;
        room >= 0 && y[i + 2] == room / p.strides[i] + 1
    };
    small && windows(0) && windows(1) && [x[0], x[1], w[0]] == [y[0], w[1], y[1]]
}

struct Component;
export!(Component);

impl manifest::Guest for Component {
    fn describe() -> manifest::Description {
        let rule = |(id, reason, _): &Rule| manifest::Entry { id: id.to_string(), reason: reason.to_string() };
        let (name, version) = ("nhwc-half".to_string(), env!("CARGO_PKG_VERSION").to_string());
        manifest::Description { name, version, families: vec!["conv".into()], rules: RULES.iter().map(rule).collect(), notes: vec![] }
    }
}

impl conv::Guest for Component {
    fn translate(p: Problem, _: Capabilities) -> Result<Translation, Decline> {
        if let Some((id, ..)) = RULES.iter().find(|(.., passes)| !passes(&p)) {
            return Err(Decline { rule: id.to_string(), message: format!("x {:?} w {:?} y {:?}", p.x.dims, p.w.dims, p.y.dims) });
        }
        let tensor = |(uid, t): (i64, &TensorDescriptor)| {
            let TensorDescriptor { data_type, dims, strides, .. } = t.clone();
            Tensor { uid, data_type, dims, strides, is_virtual: false, value: None }
        };
        let set = |number, value| Attribute { number, value };
        let attributes = vec![
            set(a::OPERATION_CONVOLUTION_FORWARD_X, Value::Tensor(0)),
            set(a::OPERATION_CONVOLUTION_FORWARD_W, Value::Tensor(1)),
            set(a::OPERATION_CONVOLUTION_FORWARD_Y, Value::Tensor(2)),
            set(a::CONVOLUTION_COMP_TYPE, Value::DataType(DataType::Float)),
            set(a::CONVOLUTION_CONV_MODE, Value::Enumeration(convolution_mode::CROSS_CORRELATION)),
            set(a::CONVOLUTION_PRE_PADDINGS, Value::Integers(p.pads.clone())),
            set(a::CONVOLUTION_POST_PADDINGS, Value::Integers(p.pads.clone())),
            set(a::CONVOLUTION_FILTER_STRIDES, Value::Integers(p.strides.clone())),
            set(a::CONVOLUTION_DILATIONS, Value::Integers(p.dilations.clone())),
        ];
        let access = |argument: u32| if argument == 2 { Access::Write } else { Access::Read };
        Ok(Translation {
            tensors: (0..).zip(tensors(&p)).map(tensor).collect(),
            nodes: vec![Node { operation: d::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, attributes }],
            compute_type: Some(DataType::Float),
            intermediate_type: Some(DataType::Float),
            io_type: Some(DataType::Half),
            bindings: (0..3).map(|argument| Binding { uid: argument.into(), argument, access: access(argument) }).collect(),
            notes: vec![],
        })
    }
}
