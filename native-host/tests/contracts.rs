//! Every version of the contract that the host speaks, with components that were built for each and are kept as they were.

#![cfg(feature = "cranelift")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, path::Path};

use hipdnn_host::{
    capabilities::Capabilities,
    component::{Code, ComponentError, Contract, EMBEDDED, EMBEDDED_CONTRACT, Translator, interface_of},
    data_type::DataType,
    graph::ReceivedGraph,
    problem::{
        Activation, ActivationMode, ActivationProblem, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode,
        ConvolutionProblem, Problem, Scaling, TensorDescriptor,
    },
};
use sha2::{Digest as _, Sha256};

const FIXTURES: &[(Contract, &str)] = &[(Contract::V1_0, "contract-1.0.wasm"), (Contract::V1_1, "contract-1.1.wasm")];

fn fixture(file: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/components/fixtures").join(file)).unwrap()
}

/// The component as a host has it that speaks nothing newer.
fn with_host(wasm: &[u8], host: Contract) -> Translator {
    let code = Code::compile(wasm).unwrap().for_hosts_of(host);
    // SAFETY: compiled just now.
    unsafe { Translator::load(&code, Sha256::digest(wasm).into()) }.unwrap()
}

fn image() -> TensorDescriptor {
    TensorDescriptor::new(DataType::Float, None, &[2, 4, 8, 8], &[256, 64, 8, 1], 1, None).unwrap()
}

fn convolution(translator: &Translator) -> ReceivedGraph {
    let (image, w) = (image(), TensorDescriptor::new(DataType::Float, None, &[4, 4, 3, 3], &[36, 9, 3, 1], 1, None).unwrap());
    let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
    let convolution = ConvolutionDescriptor::new(fields).unwrap();
    let problem = ConvolutionProblem {
        direction: ConvolutionDirection::Forward,
        convolution: &convolution,
        x: &image,
        w: &w,
        y: &image,
        alpha: 1.0,
        beta: 0.0,
        algorithm: None,
    };
    translator.translate(&Problem::Convolution(problem), &Capabilities::whole_abi()).unwrap().unwrap()
}

fn activation(translator: &Translator) -> Result<ReceivedGraph, ComponentError> {
    let image = image();
    let activation = Activation { mode: ActivationMode::Relu, alpha: 0.0, beta: 0.0, gamma: 0.0 };
    let problem = Problem::Activation(ActivationProblem { activation, scaling: Scaling::NONE, x: &image, y: &image });
    translator.translate(&problem, &Capabilities::whole_abi()).map(|answer| answer.unwrap())
}

#[test]
fn every_host_runs_every_component_as_far_as_both_go() {
    let graph = convolution(&Translator::embedded().unwrap());
    for host in Contract::ALL {
        for (component, file) in FIXTURES {
            let translator = with_host(&fixture(file), *host);
            assert_eq!(translator.contract(), *host.min(component), "{host:?} {component:?}");
            assert_eq!(convolution(&translator), graph, "{host:?} {component:?}");
            let activation = activation(&translator);
            match host.min(component) {
                Contract::V1_0 => assert!(matches!(activation, Err(ComponentError::Family("activation"))), "{host:?} {component:?}"),
                Contract::V1_1 => assert_eq!(activation.unwrap().nodes.len(), 1),
            }
        }
    }
}

#[test]
fn there_is_a_component_of_every_version_and_the_built_in_one_is_of_the_newest() {
    let mut versions: Vec<Contract> = FIXTURES.iter().map(|(contract, _)| *contract).collect();
    versions.reverse();
    assert_eq!(versions, Contract::ALL);
    for (contract, wasm) in
        FIXTURES.iter().map(|(contract, file)| (*contract, fixture(file))).chain([(EMBEDDED_CONTRACT, EMBEDDED.to_vec())])
    {
        let interface = interface_of(&wasm).unwrap();
        assert_eq!(Contract::of(interface.exports.iter().map(String::as_str)), Some(contract));
        assert_eq!(Contract::numbered(contract.version()), Some(contract));
    }
}

/// The component with another version in its exports' names.
fn renamed(wasm: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut renamed = wasm.to_vec();
    let places: Vec<usize> = (0..wasm.len() - from.len()).filter(|&at| wasm[at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| renamed[at..at + to.len()].copy_from_slice(to.as_bytes()));
    renamed
}

#[test]
fn a_version_that_nobody_here_speaks_is_refused_by_name() {
    let error = Code::compile(&renamed(EMBEDDED, "@1.0.0", "@2.0.0")).err().unwrap().to_string();
    assert!(error.contains("(1.1.0, 1.0.0)") && error.contains("manifest@2.0.0"), "{error}");
    // A later version of a family beside what is known does no harm: it is not asked.
    let later = with_host(&renamed(EMBEDDED, "@1.1.0", "@1.9.0"), Contract::NEWEST);
    assert_eq!(later.contract(), Contract::V1_0);
    assert!(matches!(activation(&later), Err(ComponentError::Family("activation"))));
}
