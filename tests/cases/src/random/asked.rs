//! What a random problem asks for, down to addresses and statuses of setters: plain data, what MIOpen's documentation says
//! that setters take, and how it is written for people. Nothing is called or decided.

use std::fmt;

use miopen_api::activation_mode;

use crate::{
    edge::{Direction, Scalar},
    problem::{Kind, Problem, Tensor},
};

/// How the convolution is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The classic call alone.
    Unfound,
    /// Workspace query, Find for so many results, and the classic call.
    Found {
        /// How many results are asked for.
        requested: usize,
    },
    /// Immediate mode: count, list, compile, run.
    Immediate,
    /// A problem's solution, saved and loaded or as it was found, and run.
    FindTwo {
        /// Whether it is saved and loaded.
        reloaded: bool,
    },
    /// A fusion plan.
    Plan,
}

/// An activation and its parameters alpha, beta and gamma.
pub type Activation = (i32, [f64; 3]);

/// What follows the convolution of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// A number for each channel.
    pub bias: bool,
    /// A function of each element.
    pub activation: Option<Activation>,
}

/// Geometry as it is given to setters: any integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// One for each spatial dimension, as the next three.
    pub pads: Vec<i64>,
    /// Of windows.
    pub strides: Vec<i64>,
    /// Of windows.
    pub dilations: Vec<i64>,
    /// Only set if transposed.
    pub output_pads: Vec<i64>,
    /// `miopenTranspose`.
    pub transposed: bool,
}

impl Geometry {
    /// Whether the setter takes it (MIOpen: pad < 0, stride or dilation < 1 give status 3).
    fn is_taken(&self) -> bool {
        self.pads.iter().all(|&pad| pad >= 0) && self.strides.iter().chain(&self.dilations).all(|&value| value >= 1)
    }
}

/// One tensor lies in the memory of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Which of x, w and y (0, 1, 2) lies in the other's memory.
    pub which: usize,
    /// The other.
    pub onto: usize,
    /// How many bytes behind its first one.
    pub shift: usize,
}

/// A random problem.
#[derive(Clone, Debug)]
pub struct Asked {
    /// How.
    pub style: Style,
    /// Which direction.
    pub direction: Direction,
    /// x, w and y (or their gradients), as they are given to setters.
    pub tensors: [Tensor; 3],
    /// As it is given to setters.
    pub geometry: Geometry,
    /// As it is given to its setter.
    pub groups: i32,
    /// Set one after the other.
    pub attributes: Vec<(i32, i32)>,
    /// Only in classic calls.
    pub alpha: Scalar,
    /// Only in classic calls.
    pub beta: Scalar,
    /// Bytes of each tensor's address beyond a multiple of 64.
    pub offsets: [usize; 3],
    /// Shared memory.
    pub alias: Option<Alias>,
    /// Which of x, w and y is a null pointer.
    pub null: Option<usize>,
    /// Only in plans.
    pub chain: Chain,
    /// Which values the tensors have.
    pub values: u64,
}

impl Asked {
    /// The entry point that executes.
    pub fn entry_point(&self) -> String {
        let direction = self.direction.name();
        match self.style {
            Style::Unfound | Style::Found { .. } => format!("miopenConvolution{direction}"),
            Style::Immediate => format!("miopenConvolution{direction}Immediate"),
            Style::FindTwo { .. } => "miopenRunSolution".into(),
            Style::Plan => "miopenExecuteFusionPlan".into(),
        }
    }

    /// Whether calls of this style have scalars.
    pub fn has_scalars(&self) -> bool {
        matches!(self.style, Style::Unfound | Style::Found { .. })
    }

    /// Alpha and beta, where the call has them.
    pub fn scaling(&self) -> (f64, f64) {
        if self.has_scalars() { (self.alpha.value(), self.beta.value()) } else { (1.0, 0.0) }
    }

    /// Whether the setters take all of it: MIOpen refuses a negative pad, strides and dilations below 1, and tensor strides of 0. An
    /// attribute that its version does not have (3.5: numbers above 2) is refused too, but leaves the descriptor as it was.
    pub fn is_taken(&self) -> bool {
        self.geometry.is_taken() && self.tensors.iter().all(|tensor| !tensor.strides.contains(&0))
    }

    /// What an attribute was set to.
    pub fn attribute(&self, number: i32) -> Option<i32> {
        self.attributes.iter().rev().find(|(set, _)| *set == number).map(|(_, value)| *value)
    }

    /// The computed tensor.
    pub fn result(&self) -> &Tensor {
        &self.tensors[self.direction.result()]
    }

    /// A bias for the plan: one number for each channel of y.
    pub fn bias(&self) -> Tensor {
        let y = &self.tensors[2];
        let mut dims = vec![1; y.dims.len()];
        dims[1] = y.dims[1];
        Tensor::packed(y.kind, &dims)
    }

    /// The same for the definition, if nothing in it is negative.
    pub fn problem(&self) -> Option<Problem> {
        let held = &self.geometry;
        let list = |values: &[i64]| values.iter().map(|&value| usize::try_from(value).ok()).collect::<Option<Vec<_>>>();
        let [x, w, y] = self.tensors.clone();
        Some(Problem {
            x,
            w,
            y,
            pads: list(&held.pads)?,
            strides: list(&held.strides)?,
            dilations: list(&held.dilations)?,
            output_pads: list(&held.output_pads)?,
            groups: usize::try_from(self.groups).ok()?,
            transposed: held.transposed,
        })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { pads, strides, dilations, output_pads, transposed } = &self.geometry;
        let mode = if *transposed { "transposed" } else { "ordinary" };
        writeln!(
            f,
            "  {:?} {mode}, {:?}, alpha {:?}, beta {:?}, groups {}",
            self.direction, self.style, self.alpha, self.beta, self.groups
        )?;
        for (i, (name, tensor)) in ["x", "w", "y"].iter().zip(&self.tensors).enumerate() {
            let Tensor { kind, dims, strides } = tensor;
            writeln!(f, "  {name} {kind:?} {dims:?} strides {strides:?}, address {} beyond a multiple of 64", self.offsets[i])?;
        }
        write!(f, "  pads {pads:?} strides {strides:?} dilations {dilations:?}")?;
        if *transposed {
            write!(f, " output pads {output_pads:?}")?;
        }
        writeln!(f)?;
        self.fmt_rest(f)
    }
}

impl Asked {
    /// What most problems do not have.
    fn fmt_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |i: usize| ["x", "w", "y"][i];
        if !self.attributes.is_empty() {
            writeln!(f, "  attributes {:?}", self.attributes)?;
        }
        if let Some(Alias { which, onto, shift }) = self.alias {
            writeln!(f, "  {} lies {shift} bytes behind the start of {}", name(which), name(onto))?;
        }
        if let Some(null) = self.null {
            writeln!(f, "  {} is null", name(null))?;
        }
        if self.style == Style::Plan {
            let activation = self.chain.activation.map(|(mode, parameters)| (activation_name(mode), parameters));
            writeln!(f, "  then bias {}, activation {activation:?}", self.chain.bias)?;
        }
        Ok(())
    }
}

fn activation_name(mode: i32) -> &'static str {
    activation_mode::ALL.iter().find(|(_, value)| *value == mode).map_or("unknown", |(name, _)| name)
}

/// A scalar as a call on a result of some type takes it.
pub fn scalar(value: f64, result: Kind) -> Scalar {
    if result == Kind::Double { Scalar::Double(value) } else { Scalar::Float(value as f32) }
}
