//! `translate`: what a MIOpenDriver line becomes, without running it: the validated graph with the backend's own names, or the decline.
//!
//! Names come from the ABI table; the translation and the checks are the host library's, the same that the shim uses.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use hipdnn_abi::{data_type, name_in, values_of};
use hipdnn_host::{
    capabilities::Capabilities,
    component::Translator,
    data_type::DataType,
    graph::{Access, Attribute, Binding, Node, Tensor, Value},
    judge::judge,
    problem::OwnedProblem,
    translations::Declined,
    validate::ValidatedGraph,
};
use serde_json::json;

use crate::{
    asked::Asked,
    convolution::Convolution,
    flags::{Direction, Line},
    output, rules,
};

/// Names of the arguments that bindings count.
const ARGUMENTS: [&str; 3] = ["x", "w", "y"];

/// Command line of `translate`.
#[derive(Args)]
pub struct Options {
    /// One JSON object for each direction, instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
    /// The MIOpenDriver line: base name and flags
    #[arg(value_name = "BASE FLAGS", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<String>,
}

/// What became of a problem.
pub type Decision = Result<ValidatedGraph, Declined>;

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let line = Line::parse(&options.line)?;
    let directions = line.directions()?;
    let convolution = Convolution::from_line(&line)?;
    let translator = options.asked.translator()?;
    let capabilities = options.asked.capabilities()?;
    for direction in directions {
        let decision = decide(&translator, &capabilities, &convolution.problem(direction)?);
        if options.json {
            println!("{}", as_json(&translator, &line, direction, &decision));
        } else {
            print(&line, direction, &decision);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the translator, and checks what it says as the host does.
pub fn decide(translator: &Translator, capabilities: &Capabilities, problem: &OwnedProblem) -> Decision {
    problem.with(|problem| judge(translator.translate(problem, capabilities), translator.description(), problem))
}

fn print(line: &Line, direction: Direction, decision: &Decision) {
    println!("{} ({})", line.command, direction.name());
    match decision {
        Err(Declined { rule, message }) => println!("declined by {rule}: {message}"),
        Ok(graph) => print_graph(graph),
    }
}

fn print_graph(graph: &ValidatedGraph) {
    println!("tensors");
    for tensor in graph.tensors() {
        println!("  {}", tensor_text(tensor));
    }
    for node in graph.nodes() {
        println!("node {}", operation_name(node));
        for attribute in &node.attributes {
            println!("  {} = {}", attribute_name(node, attribute), value_text(node, attribute));
        }
    }
    let names = ["compute", "intermediate", "io"];
    for (name, data_type) in names.iter().zip(graph.types()).filter_map(|(name, t)| Some((name, t?))) {
        println!("{name} type {}", type_name(data_type));
    }
    println!("bindings");
    for binding in graph.bindings() {
        println!("  tensor {} is {} ({})", binding.uid, argument_name(binding), access_name(binding.access));
    }
    println!("notes {}", if graph.notes().is_empty() { "none".into() } else { graph.notes().join(", ") });
}

fn tensor_text(tensor: &Tensor) -> String {
    let kind = match (&tensor.value, tensor.is_virtual) {
        (Some(bytes), _) => format!(", constant {bytes:02x?}"),
        (None, true) => ", virtual".into(),
        (None, false) => String::new(),
    };
    format!("{} {} dims {:?} strides {:?}{kind}", tensor.uid, type_name(tensor.data_type), tensor.dims, tensor.strides)
}

/// The C name of a node's operation.
pub fn operation_name(node: &Node) -> String {
    hipdnn_abi::descriptor(node.operation).map_or_else(|| node.operation.to_string(), |d| d.name.to_string())
}

/// The C name of an attribute.
fn attribute_name(node: &Node, attribute: &Attribute) -> String {
    let spec = hipdnn_abi::descriptor(node.operation).and_then(|d| d.attribute(attribute.number));
    spec.map_or_else(|| attribute.number.to_string(), |spec| spec.name.to_string())
}

/// The value of an attribute, for people.
pub fn value_text(node: &Node, attribute: &Attribute) -> String {
    match &attribute.value {
        Value::Tensor(uid) => format!("tensor {uid}"),
        Value::Tensors(uids) => format!("tensors {uids:?}"),
        Value::Integers(values) => format!("{values:?}"),
        Value::Floats(values) => format!("{values:?}"),
        Value::Doubles(values) => format!("{values:?}"),
        Value::Flag(value) => value.to_string(),
        Value::DataType(data_type) => type_name(*data_type),
        Value::Enumeration(value) => enumeration_name(node, attribute.number, *value),
        Value::Text(text) => format!("{text:?}"),
    }
}

/// The C name of a value of the enum that an attribute takes.
fn enumeration_name(node: &Node, number: i32, value: i32) -> String {
    let spec = hipdnn_abi::descriptor(node.operation).and_then(|d| d.attribute(number));
    let mut enums = spec.iter().flat_map(|spec| spec.types).filter_map(|wire| values_of(*wire));
    enums.find_map(|values| name_in(values, value)).map_or_else(|| value.to_string(), str::to_string)
}

/// The C name of an element type.
pub fn type_name(data_type: DataType) -> String {
    let name = data_type.backend_number().and_then(|number| name_in(data_type::ALL, number));
    name.map_or_else(|| format!("{data_type:?}"), str::to_string)
}

fn argument_name(binding: &Binding) -> String {
    ARGUMENTS.get(binding.argument as usize).map_or_else(|| binding.argument.to_string(), ToString::to_string)
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "written",
    }
}

fn as_json(translator: &Translator, line: &Line, direction: Direction, decision: &Decision) -> serde_json::Value {
    let mut document = json!({
        "id": output::id(line, direction),
        "command": line.command,
        "op": "conv",
        "dtype": output::dtype(line.base),
        "direction": direction.name(),
        "translator": rules::identity(translator),
        "rule": null,
        "message": null,
        "graph": null,
    });
    match decision {
        Err(Declined { rule, message }) => (document["rule"], document["message"]) = (json!(rule), json!(message)),
        Ok(graph) => document["graph"] = graph_json(graph),
    }
    document
}

fn graph_json(graph: &ValidatedGraph) -> serde_json::Value {
    let tensors = graph.tensors().iter().map(|t| {
        let data_type = type_name(t.data_type);
        json!({ "uid": t.uid, "data_type": data_type, "dims": t.dims, "strides": t.strides, "virtual": t.is_virtual, "value": t.value })
    });
    let bindings = graph.bindings().iter().map(|b| json!({ "uid": b.uid, "argument": argument_name(b), "access": access_name(b.access) }));
    let [compute, intermediate, io] = graph.types().map(|t| t.map(type_name));
    json!({
        "tensors": tensors.collect::<Vec<_>>(),
        "nodes": graph.nodes().iter().map(node_json).collect::<Vec<_>>(),
        "compute_type": compute,
        "intermediate_type": intermediate,
        "io_type": io,
        "bindings": bindings.collect::<Vec<_>>(),
        "notes": graph.notes(),
    })
}

fn node_json(node: &Node) -> serde_json::Value {
    let attributes = node.attributes.iter().map(|attribute| (attribute_name(node, attribute), value_json(node, attribute)));
    json!({ "operation": operation_name(node), "attributes": attributes.collect::<serde_json::Map<_, _>>() })
}

fn value_json(node: &Node, attribute: &Attribute) -> serde_json::Value {
    match &attribute.value {
        Value::Tensor(uid) => json!({ "tensor": uid }),
        Value::Tensors(uids) => json!({ "tensors": uids }),
        Value::Integers(values) => json!(values),
        Value::Floats(values) => json!(values),
        Value::Doubles(values) => json!(values),
        Value::Flag(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::DataType(_) | Value::Enumeration(_) => json!(value_text(node, attribute)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    fn document(line: &str) -> serde_json::Value {
        let line = parse(line).unwrap();
        let direction = line.directions().unwrap()[0];
        let translator = crate::asked::translator(None).unwrap();
        let convolution = Convolution::from_line(&line).unwrap();
        let decision = decide(&translator, &Capabilities::whole_abi(), &convolution.problem(direction).unwrap());
        as_json(&translator, &line, direction, &decision)
    }

    #[test]
    fn a_plain_convolution_becomes_a_graph_with_names() {
        let graph = &document("convfp16 -n 2 -c 8 -k 4 -I NHWC -f NHWC -O NHWC")["graph"];
        assert_eq!(graph["nodes"][0]["operation"], "HIPDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR");
        assert_eq!(graph["tensors"][0]["data_type"], "HIPDNN_DATA_HALF");
        assert_eq!(graph["bindings"].as_array().unwrap().len(), 3);
        assert!(graph.to_string().contains("CROSS_CORRELATION"));
    }

    #[test]
    fn directions_and_modes_are_operations() {
        let operation = |line: &str| document(line)["graph"]["nodes"][0]["operation"].as_str().unwrap().to_string();
        assert!(operation("conv -m trans -F 1").contains("BACKWARD_DATA"));
        assert!(operation("conv -F 2").contains("BACKWARD_DATA"));
        assert!(operation("conv -F 4").contains("BACKWARD_FILTER"));
        assert!(operation("conv -m trans -F 2").contains("CONVOLUTION_FORWARD"));
    }

    #[test]
    fn declines_name_their_rule() {
        for (line, rule) in [("conv -c 4 -k 4 -Z 1 -L 4", "tensor.layout.vectorized"), ("conv -U fp8", "tensor.type.cast")] {
            let document = document(line);
            assert_eq!((document["rule"].as_str(), document["graph"].is_null()), (Some(rule), true), "{line}");
        }
    }
}
