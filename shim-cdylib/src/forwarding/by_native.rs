//! An executing call by native: as the program made it, or, where hipDNN has served it and the operator wants it verified, once more into
//! memory of ours. Then native only reads what is the program's, and whatever it answers, the program gets hipDNN's result.

use std::any::Any;

use hipdnn_host::{forward::Shadow, handle::HandleState};
use miopen_api::status;

use super::{find2, served};
use crate::{
    frame::{Arguments, Frame, Step},
    routing::Forwarding,
};

/// Where an executing call has the memory that native would write.
#[derive(Clone, Copy)]
pub struct Written {
    /// The result.
    pub output: Output,
    /// The address of the workspace; its size is the next argument.
    pub workspace: Option<usize>,
}

/// Where a call has the address of its result.
#[derive(Clone, Copy)]
pub enum Output {
    /// It is an argument.
    Argument(usize),
    /// It is in the list of tensors that a find-2.0 solution runs with.
    Tensors,
}

/// The call under way.
pub struct ByNative {
    name: &'static str,
    arguments: Arguments,
    shadow: Option<Box<Shadow>>,
    /// What arguments of ours point to.
    _keeps: Option<Box<dyn Any>>,
}

impl ByNative {
    /// As the program made it.
    pub fn as_it_came(name: &'static str, frame: &Frame) -> Self {
        Self { name, arguments: frame.arguments(), shadow: None, _keeps: None }
    }

    /// What hipDNN has served, into the shadow's memory. Without workspace for native the call ends here.
    pub fn again(
        name: &'static str,
        written: Written,
        frame: &Frame,
        forwarding: &Forwarding,
        state: &HandleState,
        shadow: Box<Shadow>,
    ) -> Result<Self, Step> {
        let mut again = Self::as_it_came(name, frame);
        match written.output {
            Output::Argument(n) => again.arguments = again.arguments.with(n, shadow.output() as u64),
            Output::Tensors => {
                let Some(tensors) = find2::with_buffer(frame, shadow.operand(), shadow.output()) else {
                    return Err(unverified(forwarding, state, shadow, "the tensors of the solution are not x, w and y"));
                };
                again.arguments = again.arguments.with(find2::GIVEN, tensors.argument());
                again._keeps = Some(Box::new(tensors));
            }
        }
        // Native may write the workspace, too.
        if let Some(workspace) = written.workspace
            && frame.integer(workspace) != 0
            && frame.integer(workspace + 1) != 0
        {
            let Some(own) = forwarding.host.own_workspace(state, frame.integer(workspace + 1) as usize) else {
                return Err(unverified(forwarding, state, shadow, "no memory for native's workspace"));
            };
            again.arguments = again.arguments.with(workspace, own as u64);
        }
        again.shadow = Some(shadow);
        Ok(again)
    }

    /// An integer argument.
    pub fn integer(&self, n: usize) -> u64 {
        self.arguments.integer(n)
    }

    /// The same but for one argument.
    pub fn with(mut self, n: usize, value: u64) -> Self {
        self.arguments = self.arguments.with(n, value);
        self
    }

    /// Nothing of the program's call has to be changed for native.
    pub fn unchanged(self) -> Step {
        if self.shadow.is_none() { Step::Native } else { self.changed() }
    }

    /// Native executes with the arguments as they are now.
    pub fn changed(self) -> Step {
        Step::call(self.name, self.arguments, move |frame, forwarding, status| self.ended(frame, forwarding, status))
    }

    /// Native has executed, or answered already why it would not.
    pub fn ended(self, frame: &Frame, forwarding: &Forwarding, native_status: i32) -> Step {
        let Some(shadow) = self.shadow else { return Step::status(native_status) };
        let native = if native_status == status::SUCCESS { Ok(()) } else { Err(format!("native answered status {native_status}")) };
        if let Some(record) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)) {
            forwarding.host.verified(&record.state, *shadow, native);
        }
        served()
    }
}

fn unverified(forwarding: &Forwarding, state: &HandleState, shadow: Box<Shadow>, why: &str) -> Step {
    forwarding.host.verified(state, *shadow, Err(why.into()));
    served()
}

/// Where a result is in an argument.
pub const fn argument(output: usize, workspace: Option<usize>) -> Written {
    Written { output: Output::Argument(output), workspace }
}
