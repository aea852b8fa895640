//! The same convolution through MIOpen's API: what a program does that knows nothing of hipDNN.

use anyhow::Result;
use field_cases::{
    edge::{Direction, Memory, Scalar, Workspace},
    problem::Problem,
    session::{Descriptors, Session},
};

/// Any algorithm: hipDNN chooses for itself.
const ALGORITHM: i32 = 1;

/// A convolution's descriptors.
pub struct Shim {
    descriptors: Descriptors,
}

impl Shim {
    /// Sets them.
    pub fn new(session: &Session, problem: &Problem) -> Result<Self> {
        Ok(Self { descriptors: session.describe(problem)? })
    }

    /// `miopenConvolutionForward`, without workspace: what the engine needs, the shim has.
    pub fn execute(&self, session: &Session, [x, w, y]: [&Memory; 3]) -> Result<()> {
        let call = self.descriptors.call(session, Direction::Forward, [x, w, y].map(|memory| Some((memory, 0))));
        let scalars = (Scalar::Float(1.0), Scalar::Float(0.0));
        call.execute(ALGORITHM, scalars, Workspace { memory: None, size: 0 }).check("miopenConvolutionForward")
    }
}
