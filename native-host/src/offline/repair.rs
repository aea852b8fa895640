//! What would have to be otherwise in a problem that is declined: the fewest parts that, as they usually are, make it one that is not.
//!
//! Found by trying, with whatever translator there is; no rule is known here.

use super::problems::{
    shrink::mended,
    slots::{self, Slot},
};
use crate::{
    data_type::DataType,
    problem::{ActivationMode, ConvolutionDirection, ConvolutionMode, NormalizationMode, OwnedProblem},
};

/// A part that would be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which part.
    pub part: String,
    /// What it is.
    pub from: String,
    /// What it would be.
    pub to: String,
}

/// Changes with which a problem is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What would be otherwise.
    pub changes: Vec<Change>,
    /// Whether the lengths that follow from others would have to follow.
    pub lengths_follow: bool,
}

/// The most problems that are tried.
const MOST: usize = 20_000;

/// The smallest sets of changes with which a problem is accepted: single ones if there are any, else pairs, else all of one kind.
pub fn repairs(problem: &OwnedProblem, accepted: &mut dyn FnMut(&OwnedProblem) -> bool) -> Vec<Repair> {
    let parts = unusual(problem);
    let mut tried = 0;
    // With changes alone, else with the lengths that then follow.
    let mut works = |positions: &[usize]| {
        tried += 1;
        let changed = with(problem, positions);
        let followed = || mended(&changed);
        if tried > MOST {
            None
        } else if accepted(&changed) {
            Some(false)
        } else {
            followed().filter(|followed| accepted(followed)).map(|_| true)
        }
    };
    let singles: Vec<Vec<usize>> = parts.iter().map(|part| vec![part.position]).collect();
    let pairs = || parts.iter().enumerate().flat_map(|(i, a)| parts[i + 1..].iter().map(|b| vec![a.position, b.position])).collect();
    for sets in [singles, pairs(), of_one_kind(&parts)] {
        let repair = |set: Vec<usize>| Some(Repair { lengths_follow: works(&set)?, changes: changes(&parts, &set) });
        let found: Vec<Repair> = sets.into_iter().filter_map(repair).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// A part that is not as it usually is.
struct Part {
    position: usize,
    change: Change,
}

fn unusual(problem: &OwnedProblem) -> Vec<Part> {
    let (mut parts, mut position) = (Vec::new(), 0);
    slots::visit(&mut problem.clone(), &mut |name, mut slot| {
        let from = text(&slot);
        make_usual(&mut slot);
        let to = text(&slot);
        if from != to {
            parts.push(Part { position, change: Change { part: name.to_string(), from, to } });
        }
        position += 1;
    });
    parts
}

/// All the parts of one kind (`type`, `vector_length`, `strides`) together: tensors must often agree.
fn of_one_kind(parts: &[Part]) -> Vec<Vec<usize>> {
    let kind = |part: &Part| part.change.part.rsplit('.').next().unwrap_or_default().split('[').next().unwrap_or_default().to_string();
    let mut kinds: Vec<String> = parts.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.iter().map(|one| parts.iter().filter(|part| kind(part) == *one).map(|part| part.position).collect()).collect()
}

fn changes(parts: &[Part], positions: &[usize]) -> Vec<Change> {
    parts.iter().filter(|part| positions.contains(&part.position)).map(|part| part.change.clone()).collect()
}

fn with(problem: &OwnedProblem, positions: &[usize]) -> OwnedProblem {
    let (mut changed, mut at) = (problem.clone(), 0);
    slots::visit(&mut changed, &mut |_, mut slot| {
        if positions.contains(&at) {
            make_usual(&mut slot);
        }
        at += 1;
    });
    changed
}

fn make_usual(slot: &mut Slot<'_>) {
    match slot {
        Slot::Integer { value, usual } => **value = *usual,
        Slot::Number { value, usual } => **value = *usual,
        Slot::Type(value) => **value = DataType::Float,
        Slot::Cast(value) => **value = None,
        Slot::Vector(value) => **value = 1,
        Slot::Layout(value) => **value = None,
        Slot::Direction(value) => **value = ConvolutionDirection::Forward,
        Slot::Mode(value) => **value = ConvolutionMode::Convolution,
        Slot::Algorithm(value) => **value = None,
        Slot::Attributes(list) => list.clear(),
        Slot::Normalization(value) => **value = NormalizationMode::Spatial,
        Slot::Activation(value) => **value = ActivationMode::Relu,
        Slot::Name(_) => {}
    }
}

fn text(slot: &Slot<'_>) -> String {
    match slot {
        Slot::Integer { value, .. } => value.to_string(),
        Slot::Number { value, .. } => value.to_string(),
        Slot::Type(value) => format!("{value:?}"),
        Slot::Cast(value) => value.map_or_else(|| "none".into(), |value| format!("{value:?}")),
        Slot::Vector(value) => value.to_string(),
        Slot::Layout(value) => value.map_or_else(|| "none".into(), |value| format!("{value:?}")),
        Slot::Direction(value) => format!("{value:?}"),
        Slot::Mode(value) => format!("{value:?}"),
        Slot::Algorithm(value) => value.map_or_else(|| "none".into(), |value| value.to_string()),
        Slot::Attributes(list) if list.is_empty() => "none".into(),
        Slot::Attributes(list) => list.iter().map(|(number, value)| format!("{number}={value}")).collect::<Vec<_>>().join(", "),
        Slot::Normalization(value) => format!("{value:?}"),
        Slot::Activation(value) => format!("{value:?}"),
        Slot::Name(name) => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        offline::{choices::Choices, problems::generate},
        problem::OwnedConvolution,
    };

    fn convolution(change: impl Fn(&mut OwnedConvolution)) -> OwnedProblem {
        let is_plain = |problem: &OwnedProblem| matches!(problem, OwnedProblem::Convolution(c) if c.alpha == 1.0 && c.algorithm.is_none());
        let made = (0..).map(|number| generate::sound(&mut Choices::numbered(2, number))).find(is_plain);
        let Some(OwnedProblem::Convolution(mut convolution)) = made else { unreachable!() };
        change(&mut convolution);
        OwnedProblem::Convolution(convolution)
    }

    fn named(found: &[Repair]) -> Vec<String> {
        found
            .iter()
            .map(|repair| repair.changes.iter().map(|c| format!("{} {} {}", c.part, c.from, c.to)).collect::<Vec<_>>().join("; "))
            .collect()
    }

    #[test]
    fn the_fewest_changes_are_found() {
        let problem = convolution(|c| (c.alpha, c.beta, c.algorithm) = (2.0, 1.0, Some(5)));
        let scalars = |problem: &OwnedProblem| match problem {
            OwnedProblem::Convolution(c) => (c.alpha, c.beta),
            OwnedProblem::Fusion(_) | OwnedProblem::Activation(_) => unreachable!(),
        };
        assert_eq!(named(&repairs(&problem, &mut |problem| scalars(problem).0 == 1.0)), ["alpha 2 1"]);
        assert_eq!(named(&repairs(&problem, &mut |problem| scalars(problem) == (1.0, 0.0))), ["alpha 2 1; beta 1 0"]);
        assert_eq!(repairs(&problem, &mut |_| false), [] as [Repair; 0]);
    }

    #[test]
    fn parts_of_one_kind_change_together() {
        let problem = convolution(|c| {
            for tensor in [&mut c.x, &mut c.w, &mut c.y] {
                *tensor = tensor.with_cast_type(DataType::Float8E4M3);
            }
        });
        let plain = |problem: &OwnedProblem| match problem {
            OwnedProblem::Convolution(c) => [&c.x, &c.w, &c.y].iter().all(|tensor| tensor.cast_type().is_none()),
            OwnedProblem::Fusion(_) | OwnedProblem::Activation(_) => unreachable!(),
        };
        let found = named(&repairs(&problem, &mut |problem| plain(problem)));
        assert_eq!(found, ["x.cast_type Float8E4M3 none; w.cast_type Float8E4M3 none; y.cast_type Float8E4M3 none"]);
    }
}
