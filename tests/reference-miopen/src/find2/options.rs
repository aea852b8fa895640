//! Options of finding solutions. All but the tensors are kept only: there is one solution, which needs no workspace, tuning or order.

use std::collections::BTreeMap;

use super::TENSORS;
use crate::args::{New, Obj, Out, Raw, create, object};
use crate::failure::Outcome;

/// Find options.
#[derive(Default)]
pub struct Options {
    tuning: i32,
    order: i32,
    workspace_limit: Option<u64>,
    workspace: Option<(Raw, u64)>,
    attach_binaries: u32,
    /// By the number of the argument.
    tensors: BTreeMap<i32, Raw>,
}
object!(Options, 0x6d69_4669_6e64_4f70, "find options");

impl Options {
    /// Memory that was given for x, w and y.
    pub fn memory(&self) -> [Option<Raw>; 3] {
        TENSORS.map(|id| self.tensors.get(&id).copied().filter(|memory| !memory.0.is_null()))
    }
}

pub fn miopenCreateFindOptions(options: Out<New<Options>>) -> Outcome {
    create(&options, Options::default())
}

pub fn miopenDestroyFindOptions(options: Obj<Options>) -> Outcome {
    options.destroy()
}

pub fn miopenSetFindOptionTuning(mut options: Obj<Options>, value: i32) -> Outcome {
    options.get_mut()?.tuning = value;
    Ok(())
}

pub fn miopenSetFindOptionResultsOrder(mut options: Obj<Options>, value: i32) -> Outcome {
    options.get_mut()?.order = value;
    Ok(())
}

pub fn miopenSetFindOptionWorkspaceLimit(mut options: Obj<Options>, value: u64) -> Outcome {
    options.get_mut()?.workspace_limit = Some(value);
    Ok(())
}

pub fn miopenSetFindOptionPreallocatedWorkspace(mut options: Obj<Options>, buffer: Raw, size: u64) -> Outcome {
    options.get_mut()?.workspace = Some((buffer, size));
    Ok(())
}

pub fn miopenSetFindOptionPreallocatedTensor(mut options: Obj<Options>, id: i32, buffer: Raw) -> Outcome {
    options.get_mut()?.tensors.insert(id, buffer);
    Ok(())
}

pub fn miopenSetFindOptionAttachBinaries(mut options: Obj<Options>, attach: u32) -> Outcome {
    options.get_mut()?.attach_binaries = attach;
    Ok(())
}
