//! A translator that says what a 1x1 convolution is: for each image, the filters times the pixels. The operation that it asks for, a matrix
//! product, is one that the host has no line of code for.
use hipdnn_abi::{attribute as a, descriptor_type as d};

wit_bindgen::generate!({
    path: "../../../wit/translator.wit",
    inline: "package example:pointwise-as-matmul;
        world translator {
            export miopen-hipdnn:translator/graph@1.0.0;
            export miopen-hipdnn:translator/manifest@1.0.0;
            export miopen-hipdnn:translator/conv@1.0.0;
        }",
});
use exports::miopen_hipdnn::translator::{conv, conv::Problem, graph::*, manifest};

/// Id, reason, and whether a problem passes.
type Rule = (&'static str, &'static str, fn(&Problem, &Capabilities) -> bool);

/// In the order in which they are tried: each may rely on those before it.
const RULES: &[Rule] = &[
    ("matmul.backend", "the backend has no matrix product", |_, backend| {
        backend.operations.contains(&d::BACKEND_OPERATION_MATMUL_DESCRIPTOR)
    }),
    ("matmul.direction", "not the forward direction of an ordinary convolution", |p, _| {
        p.direction == conv::Direction::Forward && p.mode == conv::Mode::Convolution && p.group_count == 1
    }),
    ("matmul.type", "tensors that are not all float, half or bfloat16, or are cast", |p, _| {
        let alike = tensors(p).iter().all(|t| t.data_type == p.x.data_type && t.cast_type.is_none() && t.vector_length == 1);
        alike && matches!(p.x.data_type, DataType::Float | DataType::Half | DataType::Bfloat16)
    }),
    ("matmul.scalars", "alpha is not 1, beta is not 0, or an attribute was set", |p, _| {
        p.alpha == 1.0 && p.beta == 0.0 && p.attributes.is_empty()
    }),
    ("matmul.window", "the window is more than one element, is padded, or skips elements", |p, _| {
        let ones = |list: &[i64]| list.iter().all(|value| *value == 1);
        p.w.dims.len() == 4 && ones(&p.w.dims[2..]) && ones(&p.strides) && p.strides.len() == 2 && p.pads == [0, 0]
    }),
    ("matmul.lengths", "y does not follow from x and w, or a length is beyond 2^15", |p, _| {
        let plain =
            |t: &TensorDescriptor| t.dims.len() == 4 && t.strides.len() == 4 && t.dims.iter().all(|dim| (1..=1 << 15).contains(dim));
        let (x, w, y) = (&p.x.dims, &p.w.dims, &p.y.dims);
        tensors(p).iter().all(|t| plain(t)) && x[0] == y[0] && x[2..] == y[2..] && x[1] == w[1] && y[1] == w[0]
    }),
    ("matmul.layout", "rows of pixels that do not follow one another, or strides that are no strides", |p, _| {
        matrix(&p.x).is_some() && matrix(&p.y).is_some() && p.w.strides.iter().all(|stride| (1..1 << 40).contains(stride))
    }),
    ("matmul.overlap", "elements of y that may share an address", |p, _| !overlaps(&p.y)),
];

fn tensors(p: &Problem) -> [&TensorDescriptor; 3] {
    [&p.x, &p.w, &p.y]
}

/// Lengths and strides of an image tensor as [images, channels, pixels], if rows follow one another.
fn matrix(t: &TensorDescriptor) -> Option<([i64; 3], [i64; 3])> {
    let ([n, c, h, w], [of_n, of_c, of_h, of_w]) = (t.dims[..].try_into().ok()?, t.strides[..].try_into().ok()?);
    let [n, c, h, w]: [i64; 4] = [n, c, h, w];
    let strides: [i64; 4] = [of_n, of_c, of_h, of_w];
    let positive = strides.iter().all(|stride| (1..1 << 40).contains(stride));
    let pixel = if w > 1 { of_w } else { of_h };
    (positive && (h == 1 || w == 1 || of_h == w * of_w)).then_some(([n, c, h * w], [of_n, of_c, pixel]))
}

/// Whether a stride is within the reach of all smaller ones.
fn overlaps(t: &TensorDescriptor) -> bool {
    let mut axes: Vec<(i64, i64)> = t.strides.iter().copied().zip(t.dims.iter().copied()).filter(|(_, dim)| *dim > 1).collect();
    axes.sort_unstable();
    let mut reach = 0;
    axes.iter().any(|(stride, dim)| {
        let before = reach;
        reach += (dim - 1) * stride;
        *stride <= before
    })
}

struct Component;
export!(Component);

impl manifest::Guest for Component {
    fn describe() -> manifest::Description {
        let rule = |(id, reason, _): &Rule| manifest::Entry { id: id.to_string(), reason: reason.to_string() };
        let (name, version) = ("pointwise-as-matmul".to_string(), env!("CARGO_PKG_VERSION").to_string());
        manifest::Description { name, version, families: vec!["conv".into()], rules: RULES.iter().map(rule).collect(), notes: vec![] }
    }
}

impl conv::Guest for Component {
    fn translate(p: Problem, backend: Capabilities) -> Result<Translation, Decline> {
        let decline =
            |(id, ..): &Rule| Decline { rule: id.to_string(), message: format!("x {:?} w {:?} y {:?}", p.x.dims, p.w.dims, p.y.dims) };
        if let Some(rule) = RULES.iter().find(|(.., passes)| !passes(&p, &backend)) {
            return Err(decline(rule));
        }
        let (Some((x, of_x)), Some((y, of_y))) = (matrix(&p.x), matrix(&p.y)) else { return Err(decline(&RULES[RULES.len() - 1])) };
        let (w, of_w) = ([1, p.w.dims[0], p.w.dims[1]], [p.w.strides[0].max(1), p.w.strides[0], p.w.strides[1]]);
        let data_type = p.x.data_type;
        let tensor = |uid, dims: [i64; 3], strides: [i64; 3]| Tensor {
            uid,
            data_type,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            is_virtual: false,
            value: None,
        };
        let set = |number, value| Attribute { number, value };
        let attributes = vec![
            set(a::OPERATION_MATMUL_ADESC, Value::Tensor(1)),
            set(a::OPERATION_MATMUL_BDESC, Value::Tensor(0)),
            set(a::OPERATION_MATMUL_CDESC, Value::Tensor(2)),
            set(a::MATMUL_COMP_TYPE, Value::DataType(DataType::Float)),
        ];
        let access = |argument: u32| if argument == 2 { Access::Write } else { Access::Read };
        Ok(Translation {
            tensors: vec![tensor(0, x, of_x), tensor(1, w, of_w), tensor(2, y, of_y)],
            nodes: vec![Node { operation: d::BACKEND_OPERATION_MATMUL_DESCRIPTOR, attributes }],
            compute_type: Some(DataType::Float),
            intermediate_type: Some(DataType::Float),
            io_type: Some(data_type),
            bindings: (0..3).map(|argument| Binding { uid: argument.into(), argument, access: access(argument) }).collect(),
            notes: vec![],
        })
    }
}
