//! Making a problem that shows something as simple as it can be, while it still shows it.

use super::{
    mutate::{convolutions, refield, reshape, tensors},
    slots::{self, Slot, packed_in},
    window::Window,
};
use crate::{
    data_type::DataType,
    problem::{ActivationMode, ConvolutionDirection, ConvolutionMode, NormalizationMode, OwnedConvolution, OwnedProblem},
};

/// What shrinking came to.
pub struct Shrunk {
    /// The simplest problem found.
    pub problem: OwnedProblem,
    /// How many problems were tried.
    pub tried: usize,
}

/// The simplest problem that still has the property, which the given one has; tries at most so many.
pub fn shrink(problem: &OwnedProblem, most: usize, still: &mut dyn FnMut(&OwnedProblem) -> bool) -> Shrunk {
    let (mut best, mut tried) = (problem.clone(), 0);
    let mut weight = self::weight(&best);
    'simpler: loop {
        for candidate in candidates(&best) {
            let lighter = self::weight(&candidate);
            if lighter >= weight {
                continue;
            }
            if tried == most {
                break 'simpler;
            }
            tried += 1;
            if still(&candidate) {
                (best, weight) = (candidate, lighter);
                continue 'simpler;
            }
        }
        break;
    }
    Shrunk { problem: best, tried }
}

/// How far a problem is from the simplest one. Every step of shrinking lowers it, so that there is an end.
pub fn weight(problem: &OwnedProblem) -> u64 {
    let mut weight = 0u64;
    let unless = |usual: bool, heavy: u64| if usual { 0 } else { heavy };
    slots::visit(&mut problem.clone(), &mut |_, slot| {
        // Each part weighs something, so that fewer parts are simpler.
        weight += 100
            + match slot {
                Slot::Integer { value, usual } => {
                    let distance = value.abs_diff(usual);
                    let bits = u64::from(u64::BITS - distance.leading_zeros());
                    // Small distances are told apart exactly, large ones by their length.
                    unless(distance == 0, 10) + bits * 4 + distance.min(1000) / 16 + unless(*value >= 0, 1)
                }
                Slot::Number { value, usual } => unless(value.to_bits() == usual.to_bits(), if value.fract() == 0.0 { 10 } else { 20 }),
                Slot::Type(value) => unless(*value == DataType::Float, 10),
                Slot::Cast(value) => unless(value.is_none(), 10),
                Slot::Vector(value) => unless(*value == 1, 10),
                Slot::Layout(value) => unless(value.is_none(), 10),
                Slot::Direction(value) => unless(*value == ConvolutionDirection::Forward, 10),
                Slot::Mode(value) => unless(*value == ConvolutionMode::Convolution, 10),
                Slot::Algorithm(value) => unless(value.is_none(), 10),
                Slot::Attributes(list) => 10 * list.len() as u64,
                Slot::Normalization(value) => unless(*value == NormalizationMode::Spatial, 10),
                Slot::Activation(value) => unless(*value == ActivationMode::Relu, 10),
                Slot::Name(name) => name.len() as u64,
            };
    });
    weight
}

/// Problems that may be simpler, the boldest first. Each comes with the output that its lengths give, if there is one, without gaps and with
/// the strides that there are, and as it is.
fn candidates(problem: &OwnedProblem) -> Vec<OwnedProblem> {
    let mut changed = structures(problem);
    for position in 0..slots::count(problem) {
        for how in [Step::Usual, Step::Half, Step::One] {
            let mut candidate = problem.clone();
            slots::change(&mut candidate, position, &mut |_, slot| how.take(slot));
            changed.push(candidate);
        }
    }
    let variants = |candidate: OwnedProblem| {
        let mended = mended(&candidate);
        let strided = mended.clone().map(|mended| with_strides(mended, &candidate));
        mended.into_iter().chain(strided).chain([candidate])
    };
    changed.into_iter().flat_map(variants).collect()
}

/// The lengths of the one problem, with the strides of the other.
fn with_strides(mut lengths: OwnedProblem, strides: &OwnedProblem) -> OwnedProblem {
    for (tensor, other) in tensors(&mut lengths).into_iter().zip(tensors(&mut strides.clone())) {
        let dims = tensor.dims().to_vec();
        reshape(tensor, &dims, other.strides());
    }
    lengths
}

/// How a part becomes simpler.
#[derive(Clone, Copy)]
enum Step {
    Usual,
    Half,
    One,
}

impl Step {
    fn take(self, slot: Slot<'_>) {
        match (slot, self) {
            (Slot::Integer { value, usual }, Self::Usual) => *value = usual,
            (Slot::Integer { value, usual }, Self::Half) => *value = usual.saturating_add(value.saturating_sub(usual) / 2),
            (Slot::Integer { value, usual }, Self::One) => *value -= (*value > usual) as i64 - (*value < usual) as i64,
            (Slot::Number { value, usual }, Self::Usual) => *value = usual,
            (Slot::Number { value, .. }, Self::Half) => *value = value.trunc(),
            (Slot::Number { value, .. }, Self::One) => *value = 2.0,
            (Slot::Type(value), _) => *value = DataType::Float,
            (Slot::Cast(value), _) => *value = None,
            (Slot::Vector(value), _) => *value = 1,
            (Slot::Layout(value), _) => *value = None,
            (Slot::Direction(value), _) => *value = ConvolutionDirection::Forward,
            (Slot::Mode(value), _) => *value = ConvolutionMode::Convolution,
            (Slot::Algorithm(value), _) => *value = None,
            (Slot::Attributes(list), Self::Usual) => list.clear(),
            (Slot::Attributes(list), Self::Half) => drop(list.pop()),
            (Slot::Attributes(list), Self::One) if !list.is_empty() => drop(list.remove(0)),
            (Slot::Attributes(_), Self::One) => {}
            (Slot::Normalization(value), _) => *value = NormalizationMode::Spatial,
            (Slot::Activation(value), _) => *value = ActivationMode::Relu,
            (Slot::Name(name), _) => *name = "x".into(),
        }
    }
}

/// With fewer operations, fewer dimensions, no gaps, one type.
fn structures(problem: &OwnedProblem) -> Vec<OwnedProblem> {
    let mut changed = Vec::new();
    if let OwnedProblem::Fusion(chain) = problem {
        for left_out in 0..chain.operations.len() {
            let mut chain = chain.clone();
            chain.operations.remove(left_out);
            changed.push(OwnedProblem::Fusion(chain));
        }
    }
    let edit = |change: &dyn Fn(&mut OwnedProblem)| {
        let mut candidate = problem.clone();
        change(&mut candidate);
        candidate
    };
    for axis in 0..tensors(&mut problem.clone()).iter().map(|tensor| tensor.dims().len()).max().unwrap_or(0).saturating_sub(2) {
        changed.push(edit(&|candidate| without_axis(candidate, axis)));
        changed.push(edit(&|candidate| plain_axis(candidate, axis)));
    }
    changed.push(edit(&|candidate| {
        tensors(candidate).into_iter().for_each(|tensor| {
            let dims = tensor.dims().to_vec();
            reshape(tensor, &dims, &slots::packed(&dims));
        })
    }));
    changed.push(edit(&|candidate| {
        slots::visit(candidate, &mut |_, slot| {
            if let Slot::Type(value) = slot {
                *value = DataType::Float;
            }
        })
    }));
    for which in 0..tensors(&mut problem.clone()).len() {
        changed.push(edit(&|candidate| {
            let tensor = &mut tensors(candidate)[which];
            let (mut dims, mut strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
            dims.pop();
            strides.pop();
            reshape(tensor, &dims, &strides);
        }));
    }
    changed
}

/// With one element, and one window of one element, along a spatial dimension.
fn plain_axis(problem: &mut OwnedProblem, axis: usize) {
    for tensor in tensors(problem) {
        let (mut dims, strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
        if let Some(dim) = dims.get_mut(axis + 2) {
            *dim = 1;
            reshape(tensor, &dims, &strides);
        }
    }
    for convolution in convolutions(problem) {
        refield(convolution, |fields| {
            let lists = [(&mut fields.pads, 0), (&mut fields.strides, 1), (&mut fields.dilations, 1), (&mut fields.output_pads, 0)];
            lists.into_iter().filter_map(|(list, usual)| Some((list.get_mut(axis)?, usual))).for_each(|(value, usual)| *value = usual);
        });
    }
}

/// Without a spatial dimension.
fn without_axis(problem: &mut OwnedProblem, axis: usize) {
    for tensor in tensors(problem) {
        let (mut dims, mut strides) = (tensor.dims().to_vec(), tensor.strides().to_vec());
        if axis + 2 < dims.len() {
            dims.remove(axis + 2);
            strides.remove(axis + 2);
            reshape(tensor, &dims, &strides);
        }
    }
    for convolution in convolutions(problem) {
        refield(convolution, |fields| {
            for list in [&mut fields.pads, &mut fields.strides, &mut fields.dilations, &mut fields.output_pads] {
                if axis < list.len() {
                    list.remove(axis);
                }
            }
        });
    }
}

/// A convolution whose filter and output are those that its input, its groups and its windows give, everything packed in the order that it
/// has now.
pub fn mended(problem: &OwnedProblem) -> Option<OwnedProblem> {
    let OwnedProblem::Convolution(problem) = problem else { return None };
    let mut mended: OwnedConvolution = (**problem).clone();
    let fields = problem.convolution.fields();
    let transposed = fields.mode == ConvolutionMode::Transpose;
    let (x, w) = (problem.x.dims(), problem.w.dims());
    let spatial = fields.pads.len();
    let lists = [fields.strides.len(), fields.dilations.len(), fields.output_pads.len()];
    if x.len() != spatial + 2 || w.len() != spatial + 2 || lists.iter().any(|length| *length != spatial) || fields.group_count < 1 {
        return None;
    }
    let (image, groups) = (if transposed { w[1].checked_mul(fields.group_count)? } else { w[0] }, fields.group_count);
    let window = Window {
        filter: &w[2..],
        strides: &fields.strides,
        dilations: &fields.dilations,
        pads: &fields.pads,
        output_pads: &fields.output_pads,
    };
    let mut w = w.to_vec();
    if transposed {
        w[0] = x[1]
    } else {
        w[1] = x[1].checked_div(groups)?.max(1)
    };
    let y: Vec<i64> = [x[0], image].into_iter().chain(window.output(&x[2..], transposed).ok()?).collect();
    repack(&mut mended.x, problem.x.dims());
    repack(&mut mended.w, &w);
    repack(&mut mended.y, &y);
    Some(OwnedProblem::Convolution(Box::new(mended)))
}

/// Lengths without gaps, in the order that the tensor has, as far as that can be told.
fn repack(tensor: &mut crate::problem::TensorDescriptor, dims: &[i64]) {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if dims.len() == tensor.strides().len() {
        order.sort_by_key(|&axis| std::cmp::Reverse(tensor.strides()[axis]));
    }
    let strides = packed_in(dims, &order);
    reshape(tensor, dims, &strides);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::{choices::Choices, problems::generate};

    fn smallest(still: impl Fn(&OwnedProblem) -> bool) -> OwnedProblem {
        let problem = (0..10_000).map(|number| generate::numbered(4, number)).find(|problem| still(problem)).unwrap();
        let shrunk = shrink(&problem, 5000, &mut |problem| still(problem));
        assert!(still(&shrunk.problem) && weight(&shrunk.problem) <= weight(&problem) && shrunk.tried <= 5000);
        shrunk.problem
    }

    #[test]
    fn a_property_of_one_part_leaves_everything_else_plain() {
        let problem = smallest(|problem| matches!(problem, OwnedProblem::Convolution(c) if c.alpha != 1.0 && c.x.dims().len() == 4));
        let OwnedProblem::Convolution(c) = problem else { unreachable!() };
        assert_eq!((c.x.dims(), c.w.data_type(), c.beta, c.algorithm), (&[1, 1, 1, 1][..], DataType::Float, 0.0, None));
    }

    #[test]
    fn a_property_of_lengths_that_belong_together_keeps_them_together() {
        // Windows that overlap: true only of a filter that is longer than its stride, and an output that follows from that.
        let overlaps = |problem: &OwnedProblem| {
            let OwnedProblem::Convolution(c) = problem else { return false };
            let fields = c.convolution.fields();
            fields.mode == ConvolutionMode::Convolution
                && mended(problem).is_some_and(|mended| matches!(mended, OwnedProblem::Convolution(m) if m.y.dims() == c.y.dims()))
                && c.y.dims().len() == 4
                && c.w.dims()[2] > fields.strides[0]
                && c.y.dims()[2] > 2
        };
        let OwnedProblem::Convolution(c) = smallest(overlaps) else { unreachable!() };
        assert_eq!((c.w.dims(), c.y.dims()), (&[1, 1, 2, 1][..], &[1, 1, 3, 1][..]), "{}", c.x.dims()[2]);
    }

    #[test]
    fn a_property_of_strides_keeps_them_while_lengths_shrink() {
        let overlaps = |problem: &OwnedProblem| {
            let OwnedProblem::Convolution(c) = problem else { return false };
            let fits = mended(problem).is_some_and(|mended| matches!(mended, OwnedProblem::Convolution(m) if m.y.dims() == c.y.dims()));
            let (dims, strides) = (c.y.dims(), c.y.strides());
            fits && dims.len() == 4 && dims[2] > 1 && dims[3] > 1 && strides[2] < dims[3] && strides[3] == 1
        };
        let OwnedProblem::Convolution(c) = smallest(overlaps) else { unreachable!() };
        // How long the rows are is a question of where it began; that they overlap by one element is the least.
        assert_eq!((&c.y.dims()[..3], c.y.dims()[3] - c.y.strides()[2]), (&[1, 1, 2][..], 1), "{:?} {:?}", c.y.dims(), c.y.strides());
    }

    #[test]
    fn chains_lose_operations() {
        let adds = |problem: &OwnedProblem| matches!(problem, OwnedProblem::Fusion(f) if f.operations.iter().any(|o| matches!(o, crate::problem::OwnedOperation::Bias { .. })));
        let OwnedProblem::Fusion(chain) = smallest(adds) else { unreachable!() };
        assert_eq!(chain.operations.len(), 1);
    }

    #[test]
    fn it_ends_whatever_the_problem() {
        for number in 0..50 {
            let problem = generate::wild(&mut Choices::numbered(9, number));
            let shrunk = shrink(&problem, 100_000, &mut |_| true);
            assert!(shrunk.tried < 100_000, "{problem}");
        }
    }
}
