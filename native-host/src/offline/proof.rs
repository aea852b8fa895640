//! A slow checker of graphs, written to be obviously right: what the validator ([`crate::validate`]) is compared with.
//!
//! It says the same in another way: numbers in 128 bits, addresses one by one, orders by looking at every earlier node. It shares with the
//! validator the limits and the ABI table, and no code.

use std::collections::HashSet;

use hipdnn_abi::{Access as Use, AttributeSpec, Count, Need, attribute_type as wire};

use crate::{
    graph::{Access, Node, ReceivedGraph, Tensor, Value},
    problem::MAX_RANK,
    rules::HostRule,
    validate::{Argument, GraphFault, MAX_ITEMS, MAX_LIST, MAX_TEXT, validate},
};

/// Outputs with more elements are not looked at address by address.
const MAX_ADDRESSES: i128 = 1 << 14;

/// What the slow checker says of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It keeps to all that is promised.
    Safe,
    /// It does not, in this way.
    Unsafe(&'static str),
    /// All else is well, but an output has too many elements to look at each.
    Unknown,
}

/// Compares the validator's answer with the slow one; an error says how they differ.
///
/// The validator may refuse an output whose elements do not overlap: it looks at strides, not at addresses.
pub fn compare(graph: &ReceivedGraph, arguments: &[Argument]) -> Result<Proof, String> {
    let proof = check(graph, arguments);
    match (validate(graph.clone(), arguments), &proof) {
        (Ok(_), Proof::Safe | Proof::Unknown) | (Err(_), Proof::Unsafe(_)) => Ok(proof),
        (Err(GraphFault { rule: HostRule::GraphOverlap, .. }), Proof::Safe | Proof::Unknown) => Ok(proof),
        (Ok(_), Proof::Unsafe(why)) => Err(format!("the validator passes what is unsafe: {why}")),
        (Err(fault), Proof::Safe | Proof::Unknown) => Err(format!("the validator refuses what is safe: {fault}")),
    }
}

/// Something that is promised: a word for it, and whether it holds.
type Promise = (&'static str, fn(&ReceivedGraph, &[Argument]) -> bool);

/// Looks at everything that is promised of a validated graph.
pub fn check(graph: &ReceivedGraph, arguments: &[Argument]) -> Proof {
    let promises: [Promise; 8] = [
        ("sizes", |graph, _| sizes(graph)),
        ("types", |graph, _| {
            [graph.compute_type, graph.intermediate_type, graph.io_type].into_iter().flatten().all(|t| t.bytes().is_some())
        }),
        ("uids", |graph, _| graph.tensors.iter().all(|tensor| named(graph, tensor.uid).len() == 1)),
        ("tensors", |graph, _| graph.tensors.iter().all(tensor)),
        ("bindings", bindings),
        ("arguments", sharing),
        ("operations", |graph, _| graph.nodes.iter().all(operation)),
        ("order", |graph, _| order(graph)),
    ];
    if let Some((broken, _)) = promises.iter().find(|(_, holds)| !holds(graph, arguments)) {
        return Proof::Unsafe(broken);
    }
    let outputs = graph.tensors.iter().filter(|tensor| access(graph, tensor.uid) == Some(Access::Write));
    let overlaps: Vec<Option<bool>> = outputs.map(overlaps).collect();
    match overlaps {
        all if all.contains(&Some(true)) => Proof::Unsafe("overlap"),
        all if all.contains(&None) => Proof::Unknown,
        _ => Proof::Safe,
    }
}

fn sizes(graph: &ReceivedGraph) -> bool {
    let lists = [graph.tensors.len(), graph.nodes.len(), graph.bindings.len(), graph.notes.len()];
    let of_value = |value: &Value| match value {
        Value::Tensors(list) | Value::Integers(list) => list.len() <= MAX_LIST,
        Value::Floats(list) => list.len() <= MAX_LIST,
        Value::Doubles(list) => list.len() <= MAX_LIST,
        Value::Text(text) => text.len() <= MAX_TEXT,
        _ => true,
    };
    let of_node = |node: &Node| node.attributes.len() <= MAX_ITEMS && node.attributes.iter().all(|attribute| of_value(&attribute.value));
    lists.iter().all(|length| *length <= MAX_ITEMS)
        && !graph.nodes.is_empty()
        && graph.notes.iter().all(|note| note.len() <= MAX_TEXT)
        && graph.tensors.iter().all(|tensor| tensor.dims.len() <= MAX_RANK && tensor.strides.len() <= MAX_RANK)
        && graph.tensors.iter().all(|tensor| tensor.value.as_ref().is_none_or(|bytes| bytes.len() <= MAX_TEXT))
        && graph.nodes.iter().all(of_node)
}

fn named(graph: &ReceivedGraph, uid: i64) -> Vec<&Tensor> {
    graph.tensors.iter().filter(|tensor| tensor.uid == uid).collect()
}

/// Elements from the first to the last.
fn reach(tensor: &Tensor) -> i128 {
    1 + tensor.dims.iter().zip(&tensor.strides).map(|(&dim, &stride)| (i128::from(dim) - 1) * i128::from(stride)).sum::<i128>()
}

fn tensor(tensor: &Tensor) -> bool {
    let Some(width) = tensor.data_type.bytes() else { return false };
    let shaped = !tensor.dims.is_empty() && tensor.dims.len() == tensor.strides.len();
    let positive = tensor.dims.iter().chain(&tensor.strides).all(|value| *value >= 1);
    // Below 16 products of 126 bits each there is no overflow that matters: one above 63 bits is refused anyway.
    let fits = || tensor.dims.iter().zip(&tensor.strides).all(|(&d, &s)| (i128::from(d) - 1) * i128::from(s) <= i128::from(i64::MAX));
    let small = || fits() && reach(tensor) <= i128::from(i64::MAX) && reach(tensor) * width as i128 <= i128::from(i64::MAX);
    let constant =
        tensor.value.as_ref().is_none_or(|bytes| !tensor.is_virtual && bytes.len() == width && tensor.dims.iter().all(|dim| *dim == 1));
    shaped && positive && small() && constant
}

fn in_memory(tensor: &Tensor) -> bool {
    !tensor.is_virtual && tensor.value.is_none()
}

fn access(graph: &ReceivedGraph, uid: i64) -> Option<Access> {
    graph.bindings.iter().find(|binding| binding.uid == uid).map(|binding| binding.access)
}

/// Every tensor in memory is bound once, nothing else is, and each lies within its argument and is used as the call uses that.
fn bindings(graph: &ReceivedGraph, arguments: &[Argument]) -> bool {
    let bound = |tensor: &Tensor| graph.bindings.iter().filter(|binding| binding.uid == tensor.uid).count();
    let once = graph.tensors.iter().all(|tensor| bound(tensor) == usize::from(in_memory(tensor)));
    once && graph.bindings.iter().all(|binding| {
        let (Some(tensor), Some(argument)) = (named(graph, binding.uid).first().copied(), arguments.get(binding.argument as usize)) else {
            return false;
        };
        let used = match binding.access {
            Access::Read => argument.read,
            Access::Write => argument.written,
        };
        used && tensor.data_type == argument.data_type && reach(tensor) <= i128::from(argument.extent)
    })
}

/// What the call writes is written once; what the graph reads and writes, the call reads and writes.
fn sharing(graph: &ReceivedGraph, arguments: &[Argument]) -> bool {
    arguments.iter().enumerate().all(|(position, argument)| {
        let count = |access: Access| {
            graph.bindings.iter().filter(|binding| binding.argument as usize == position && binding.access == access).count()
        };
        let (reads, writes) = (count(Access::Read), count(Access::Write));
        writes == usize::from(argument.written) && (writes == 0 || reads == 0 || argument.read)
    })
}

fn operation(node: &Node) -> bool {
    let Some(spec) = hipdnn_abi::DESCRIPTORS.iter().find(|spec| spec.kind == node.operation && spec.is_operation) else { return false };
    let given = |number: i32| node.attributes.iter().filter(|attribute| attribute.number == number).count();
    let complete = spec.attributes.iter().all(|attribute| attribute.need != Need::Required || given(attribute.number) == 1);
    complete
        && node.attributes.iter().all(|attribute| {
            let own = spec.attributes.iter().find(|own| own.number == attribute.number);
            given(attribute.number) == 1 && own.is_some_and(|own| own.need != Need::ReadOnly && takes(own, &attribute.value))
        })
}

/// Whether an attribute takes a value: its type, how many there are, and that enumerations have the number.
fn takes(own: &AttributeSpec, value: &Value) -> bool {
    let has = |kind: i32| own.types.contains(&kind);
    let (typed, count) = match value {
        Value::Tensor(_) => (has(wire::BACKEND_DESCRIPTOR) && own.access.is_some(), 1),
        Value::Tensors(list) => (has(wire::BACKEND_DESCRIPTOR) && own.access.is_some(), list.len()),
        Value::Integers(list) => {
            let narrow = list.iter().all(|value| (i64::from(i32::MIN)..=i64::from(i32::MAX)).contains(value));
            (has(wire::INT64) || has(wire::INT32) && narrow, list.len())
        }
        Value::Floats(list) => (has(wire::FLOAT), list.len()),
        Value::Doubles(list) => (has(wire::DOUBLE), list.len()),
        Value::Flag(_) => (has(wire::BOOLEAN), 1),
        Value::DataType(data_type) => (has(wire::DATA_TYPE) && data_type.bytes().is_some(), 1),
        Value::Enumeration(number) => {
            let known = |kind: &i32| {
                *kind != wire::DATA_TYPE && hipdnn_abi::values_of(*kind).is_some_and(|all| all.iter().any(|(value, _)| value == number))
            };
            (own.types.iter().any(known), 1)
        }
        Value::Text(text) => (has(wire::CHAR) && !text.as_bytes().contains(&0), 1),
    };
    let counted = match own.count {
        Count::One => count == 1,
        Count::Many => count >= 1,
    };
    typed && counted
}

/// The tensors that a node reads, or writes. The node's attributes are in order.
fn used(node: &Node, how: Use) -> Vec<i64> {
    let spec = hipdnn_abi::DESCRIPTORS.iter().find(|spec| spec.kind == node.operation);
    let access = |number: i32| spec.and_then(|spec| spec.attributes.iter().find(|own| own.number == number)).and_then(|own| own.access);
    let uids = |value: &Value| match value {
        Value::Tensor(uid) => vec![*uid],
        Value::Tensors(uids) => uids.clone(),
        _ => vec![],
    };
    let attributes = node.attributes.iter().filter(|attribute| access(attribute.number) == Some(how));
    attributes.flat_map(|attribute| uids(&attribute.value)).collect()
}

/// Values are there before they are used, and nothing is written twice, read from what is written, or there for nothing.
fn order(graph: &ReceivedGraph) -> bool {
    let everything = |how: Use| graph.nodes.iter().flat_map(|node| used(node, how)).collect::<Vec<i64>>();
    let (reads, writes) = (everything(Use::Read), everything(Use::Write));
    let exists = reads.iter().chain(&writes).all(|uid| named(graph, *uid).len() == 1);
    let in_order = graph.nodes.iter().enumerate().all(|(position, node)| {
        let before: Vec<i64> = graph.nodes[..position].iter().flat_map(|node| used(node, Use::Write)).collect();
        used(node, Use::Read).iter().all(|uid| !named(graph, *uid).iter().any(|tensor| tensor.is_virtual) || before.contains(uid))
    });
    exists
        && in_order
        && graph.tensors.iter().all(|tensor| {
            let read = reads.contains(&tensor.uid);
            let written = writes.iter().filter(|uid| **uid == tensor.uid).count();
            match (tensor.is_virtual, access(graph, tensor.uid)) {
                (true, _) => written == 1 && read,
                (false, Some(Access::Write)) => written == 1 && !read,
                // Read from memory, or a constant.
                (false, _) => written == 0 && read,
            }
        })
}

/// Whether two elements have one address; `None` if there are too many to look.
fn overlaps(tensor: &Tensor) -> Option<bool> {
    let elements = tensor.dims.iter().try_fold(1i128, |all, dim| all.checked_mul(i128::from(*dim)).filter(|all| *all <= MAX_ADDRESSES))?;
    let mut addresses = HashSet::with_capacity(elements as usize);
    for element in 0..elements {
        let (mut rest, mut address) = (element, 0i128);
        for (&dim, &stride) in tensor.dims.iter().zip(&tensor.strides) {
            address += rest % i128::from(dim) * i128::from(stride);
            rest /= i128::from(dim);
        }
        if !addresses.insert(address) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        capabilities::Capabilities,
        component::Translator,
        judge::arguments,
        offline::{choices::Choices, graphs, problems::generate},
    };

    /// A good graph of a random problem, and its arguments.
    fn graph(translator: &Translator, choices: &mut Choices<'_>) -> Option<(ReceivedGraph, Vec<Argument>)> {
        let problem = generate::sound(choices);
        problem.with(|problem| Some((translator.translate(problem, &Capabilities::whole_abi()).ok()?.ok()?, arguments(problem)?)))
    }

    #[test]
    fn the_validator_and_the_slow_checker_agree() {
        let translator = Translator::embedded().unwrap();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for number in 0..20_000 {
            let choices = &mut Choices::numbered(8, number);
            let Some((mut graph, arguments)) = graph(&translator, choices) else { continue };
            for _ in 0..number % 4 {
                graphs::bend(&mut graph, choices);
            }
            let proof = compare(&graph, &arguments).unwrap_or_else(|difference| panic!("{number}: {difference}: {graph:?} {arguments:?}"));
            *seen.entry(format!("{proof:?}")).or_default() += 1;
        }
        // Whatever can be wrong was wrong somewhere.
        for broken in ["sizes", "types", "uids", "tensors", "bindings", "arguments", "operations", "order", "overlap"] {
            assert!(seen.contains_key(&format!("Unsafe({broken:?})")), "{broken}: {seen:?}");
        }
        assert!(seen["Safe"] > 3000, "{seen:?}");
    }

    #[test]
    fn overlap_is_seen_address_by_address() {
        let tensor = |dims: &[i64], strides: &[i64]| Tensor {
            uid: 1,
            data_type: crate::data_type::DataType::Float,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            is_virtual: false,
            value: None,
        };
        assert_eq!(overlaps(&tensor(&[2, 3], &[3, 1])), Some(false));
        assert_eq!(overlaps(&tensor(&[2, 3], &[2, 1])), Some(true));
        // Strides alone do not tell: 0, 3, 5, 8 are four addresses.
        assert_eq!(overlaps(&tensor(&[2, 2], &[5, 3])), Some(false));
        assert_eq!(overlaps(&tensor(&[1 << 40, 2], &[1, 1])), None);
    }
}
