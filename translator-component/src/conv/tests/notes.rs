//! What graphs are accompanied by.

use super::{capabilities, problem};
use crate::{
    contract::{
        conv::{Direction, Problem},
        graph::DataType,
    },
    conv::{RULES, translate},
};

fn notes(problem: &Problem) -> Vec<String> {
    translate(problem, &capabilities()).unwrap().notes
}

#[test]
fn an_algorithm_is_ignored_unless_it_is_the_one_that_find_names() {
    for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardWeights] {
        let named = |algorithm| notes(&Problem { algorithm, ..problem(direction, DataType::Float, [1.0, 0.0]) });
        for algorithm in [None, Some(5)] {
            assert!(named(algorithm).is_empty(), "{algorithm:?}");
        }
        for algorithm in [0, 1, 4, 6, u32::MAX] {
            assert_eq!(named(Some(algorithm)), ["conv.algorithm.ignored"], "{algorithm}");
        }
    }
}

#[test]
fn scaled_graphs_say_by_which_rule_they_are_declined_if_no_engine_takes_them() {
    let scaled = |alpha, beta| notes(&problem(Direction::Forward, DataType::Float, [alpha, beta]));
    let [alpha, beta] = ["conv.scaling.alpha", "conv.scaling.beta"];
    assert!(scaled(1.0, -0.0).is_empty());
    assert_eq!(scaled(2.0, 0.0), [alpha]);
    assert_eq!(scaled(1.0, f64::NAN), [beta]);
    assert_eq!(scaled(2.0, 1.0), [alpha, beta]);
    for id in [alpha, beta] {
        assert!(RULES.iter().any(|rule| rule.id == id), "{id}");
    }
}
