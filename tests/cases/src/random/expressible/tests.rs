//! The predicate on problems whose answer is plain.

use super::*;
use crate::{
    problem::Problem,
    random::asked::{Alias, Chain},
};

fn asked(problem: Problem) -> Asked {
    let list = |values: &[usize]| values.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let geometry = Geometry {
        pads: list(&problem.pads),
        strides: list(&problem.strides),
        dilations: list(&problem.dilations),
        output_pads: list(&problem.output_pads),
        transposed: problem.transposed,
    };
    Asked {
        style: Style::Unfound,
        direction: Direction::Forward,
        geometry,
        groups: problem.groups as i32,
        attributes: Vec::new(),
        alpha: Scalar::Float(1.0),
        beta: Scalar::Float(0.0),
        offsets: [0; 3],
        alias: None,
        null: None,
        chain: Chain::default(),
        values: 0,
        tensors: [problem.x, problem.w, problem.y],
    }
}

fn plain() -> Problem {
    Problem::new(Kind::Float, &[2, 4, 5, 6], &[6, 2, 3, 3]).groups(2).pads(&[1, 0]).strides(&[2, 1])
}

fn of(asked: &Asked) -> [Reasons; 2] {
    [Profile::Abi, Profile::Provider].map(|profile| reasons(asked, profile))
}

const ALL: [Reasons; 2] = [Vec::new(), Vec::new()];

fn only_abi(rule: &'static str) -> [Reasons; 2] {
    [Vec::new(), vec![rule]]
}

fn neither(rule: &'static str) -> [Reasons; 2] {
    [vec![rule], vec![rule]]
}

#[test]
fn what_both_engines_take() {
    assert_eq!(of(&asked(plain())), ALL);
    assert_eq!(of(&asked(plain().channels_last())), ALL);
    let small = Problem::new(Kind::Half, &[2, 4, 5], &[4, 3, 3]).strides(&[2]);
    assert_eq!(of(&asked(small.transposed(&[1]))), ALL);
}

#[test]
fn what_only_the_abi_has() {
    assert_eq!(of(&asked(Problem::new(Kind::Double, &[2, 4, 5, 6], &[6, 4, 3, 3]))), only_abi("host.backend.unsupported"));
    assert_eq!(of(&asked(plain().x_strides(&[1, 2, 8, 40]))), only_abi("host.backend.unsupported"));
    let four = Problem::new(Kind::Float, &[1, 1, 2, 2, 2, 2], &[1, 1, 1, 1, 1, 1]);
    assert_eq!(of(&asked(four)), only_abi("host.backend.unsupported"));
    assert_eq!(of(&Asked { beta: Scalar::Float(1.0), ..asked(plain()) }), only_abi("conv.scaling.beta"));
}

#[test]
fn what_neither_has() {
    assert_eq!(of(&asked(plain().y_strides(&[1, 1, 1, 1]))), neither("tensor.strides.overlap"));
    assert_eq!(of(&Asked { attributes: vec![(1, 1)], ..asked(plain()) }), neither("conv.attribute.deterministic"));
    assert_eq!(of(&Asked { null: Some(1), ..asked(plain()) }), neither("host.pointer.null"));
    let mut longer = plain();
    longer.y = Tensor::packed(Kind::Float, &[2, 6, 3, 5]);
    assert_eq!(of(&asked(longer)), neither("conv.output.geometry"));
    let window = Problem::new(Kind::Float, &[1, 1, 1, 1], &[1, 1, 3, 3]);
    assert_eq!(of(&asked(window)), neither("conv.output.geometry"));
}

#[test]
fn memory_is_not_shared() {
    let with = |which, onto, shift| of(&Asked { alias: Some(Alias { which, onto, shift }), ..asked(plain()) });
    assert_eq!(with(1, 0, 0), neither("host.aliasing"));
    assert_eq!(with(2, 0, 0), neither("host.aliasing"));
    assert_eq!(with(2, 0, 4 * 2 * 4 * 5 * 6), ALL);
}

#[test]
fn a_raised_length_needs_another_padding() {
    // 3 - 4 = -1, so MIOpen says 1: all of the window's places but one lie in the padding.
    let raised = Problem::new(Kind::Float, &[1, 1, 1], &[1, 1, 3]).pads(&[2]).transposed(&[0]);
    assert_eq!(raised.y.dims, [1, 1, 1]);
    assert_eq!(of(&asked(raised)), only_abi("host.backend.unsupported"));
}
