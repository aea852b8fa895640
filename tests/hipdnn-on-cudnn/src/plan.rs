//! Plans: one configuration, ready to run; and what is kept of it when it is saved.

use std::{ffi::c_void, sync::Arc};

use hipdnn_abi::status;
use hipdnn_backend::{
    Error, Result,
    executor::{Arguments, Call, Executable},
};
use serde::{Deserialize, Serialize};

use crate::{
    cuda::Cuda,
    cudnn::{
        CudnnError, Descriptor,
        numbers::{attribute, kind},
    },
    lower::Lowered,
    session::Device,
};

/// What a saved plan holds beyond the graph.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The engine's name.
    pub(crate) engine: String,
    /// The plan as cuDNN writes it.
    plan: String,
}

/// A finalized plan.
pub(crate) struct CudnnPlan {
    engine: String,
    plan: Descriptor,
    lowered: Arc<Lowered>,
    workspace: usize,
    device: Device,
}

impl CudnnPlan {
    pub(crate) fn build(engine: String, configuration: &Descriptor, lowered: Arc<Lowered>, device: &Device) -> Result<Self> {
        Self::finalized(engine, lowered, device, |plan| plan.set_descriptors(attribute::EXECUTION_PLAN_ENGINE_CONFIG, &[configuration]))
    }

    /// From what [`Executable::payload`] gave: no engine is asked, no kernel is compiled that was compiled before.
    pub(crate) fn restore(saved: Saved, lowered: Arc<Lowered>, device: &Device) -> Result<Self> {
        let Saved { engine, plan: text } = saved;
        Self::finalized(engine, lowered, device, |plan| plan.set_text(attribute::EXECUTION_PLAN_JSON_REPRESENTATION, &text))
    }

    fn finalized(
        engine: String,
        lowered: Arc<Lowered>,
        device: &Device,
        describe: impl FnOnce(&Descriptor) -> std::result::Result<(), CudnnError>,
    ) -> Result<Self> {
        let plan = Descriptor::new(device.library(), kind::EXECUTION_PLAN)?;
        match device {
            Device::Present(handle) => plan.set_handle(attribute::EXECUTION_PLAN_HANDLE, handle)?,
            Device::Described(properties) => plan.set_descriptors(attribute::EXECUTION_PLAN_DEVICEPROP, &[&properties.descriptor])?,
        }
        describe(&plan)?;
        plan.finalize()?;
        let workspace = plan.int64(attribute::EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let workspace = usize::try_from(workspace).map_err(|_| Error::unsupported(format!("{workspace} bytes of workspace")))?;
        Ok(Self { engine, plan, lowered, workspace, device: device.clone() })
    }

    fn prepare(&self, arguments: &Arguments, workspace: *mut u8) -> Result<Ready> {
        let lowered = &self.lowered;
        let mut uids = lowered.arguments.clone();
        let mut addresses = uids.iter().map(|&uid| Ok(arguments.address(uid)?.cast())).collect::<Result<Vec<*mut c_void>>>()?;
        for constant in &lowered.constants {
            uids.push(constant.uid);
            addresses.push(std::ptr::from_ref(&constant.bytes).cast_mut().cast());
        }
        let mut copies = Vec::new();
        for copy in &lowered.copies {
            let [from, to] = [copy.from, copy.to].map(|uid| arguments.address(uid).map(<*mut u8>::expose_provenance));
            let (from, to) = (from?, to?);
            if from != to {
                let copier = Cuda::get().map_err(|error| Error::new(status::EXECUTION_FAILED, error))?;
                copies.push(Move { copier, from, to, bytes: copy.bytes });
            }
        }
        let pack = Descriptor::pack(self.device.library(), &uids, &addresses, workspace.cast())?;
        Ok(Ready { pack, copies, _constants: lowered.clone() })
    }
}

/// What is made of the addresses of a variant pack.
struct Ready {
    pack: Descriptor,
    copies: Vec<Move>,
    /// The pack has their addresses.
    _constants: Arc<Lowered>,
}

struct Move {
    copier: &'static Cuda,
    from: usize,
    to: usize,
    bytes: usize,
}

impl Executable for CudnnPlan {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn payload(&self) -> Result<Vec<u8>> {
        let plan = self.plan.text(attribute::EXECUTION_PLAN_JSON_REPRESENTATION)?;
        let saved = Saved { engine: self.engine.clone(), plan };
        serde_json::to_vec(&saved).map_err(|error| Error::new(status::INTERNAL_ERROR, error.to_string()))
    }

    unsafe fn execute(&self, call: &Call<'_>) -> Result<()> {
        if let Device::Described(_) = self.device {
            return Err(Error::new(status::EXECUTION_FAILED, "the device is only described"));
        }
        if call.memo.get().is_none() {
            // Another thread with the same pack made the same.
            let _ = call.memo.set(Box::new(self.prepare(call.arguments, call.workspace)?));
        }
        let ready = call.memo.get().and_then(|memo| memo.downcast_ref::<Ready>());
        let ready = ready.ok_or_else(|| Error::new(status::INTERNAL_ERROR, "the pack is of another library"))?;
        for Move { copier, from, to, bytes } in &ready.copies {
            let (from, to) = (std::ptr::with_exposed_provenance(*from), std::ptr::with_exposed_provenance_mut(*to));
            // SAFETY: both tensors are live by the contract of this function, and as long as said.
            let copied = unsafe { copier.copy(to, from, *bytes, call.session.stream()) };
            copied.map_err(|error| Error::new(status::EXECUTION_FAILED, format!("copying the old result: {error}")))?;
        }
        // SAFETY: by the contract of this function; the session's handle is live, because the call is of it.
        unsafe { self.plan.execute(call.session.library_handle(), &ready.pack) }?;
        Ok(())
    }
}
