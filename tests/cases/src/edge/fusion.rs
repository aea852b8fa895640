//! Fusion plans, and the one call that fuses without a plan.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use anyhow::Result;
use libloading::os::unix::Library;
use miopen_api::{fusion_direction, fwd_algorithm};

use super::{Call, Memory, MiOpen, Object, Owned, Scalar, Status, Workspace, functions};

type OneCall = unsafe extern "C" fn(
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    c_int,
    *mut c_void,
    usize,
    *const c_void,
    Object,
    *const c_void,
    Object,
    *const c_void,
    Object,
    Object,
    *mut c_void,
) -> c_int;

functions! {
    Table {
        create_plan "miopenCreateFusionPlan" (*mut Object, c_int, Object);
        destroy_plan "miopenDestroyFusionPlan" (Object);
        compile "miopenCompileFusionPlan" (Object, Object);
        op_convolution "miopenCreateOpConvForward" (Object, *mut Object, Object, Object);
        op_bias "miopenCreateOpBiasForward" (Object, *mut Object, Object);
        op_activation "miopenCreateOpActivationForward" (Object, *mut Object, c_int);
        create_arguments "miopenCreateOperatorArgs" (*mut Object);
        destroy_arguments "miopenDestroyOperatorArgs" (Object);
        set_convolution "miopenSetOpArgsConvForward" (Object, Object, *const c_void, *const c_void, *const c_void);
        set_bias "miopenSetOpArgsBiasForward" (Object, Object, *const c_void, *const c_void, *const c_void);
        set_activation "miopenSetOpArgsActivForward" (Object, Object, *const c_void, *const c_void, f64, f64, f64);
        execute "miopenExecuteFusionPlan" (Object, Object, Object, *const c_void, Object, *mut c_void, Object);
        create_activation "miopenCreateActivationDescriptor" (*mut Object);
        set_activation_descriptor "miopenSetActivationDescriptor" (Object, c_int, f64, f64, f64);
        destroy_activation "miopenDestroyActivationDescriptor" (Object);
    }
}

pub(super) struct Functions {
    table: Table,
    one_call: OneCall,
}

impl Functions {
    pub(super) fn resolve(library: &Library) -> Result<Self> {
        let one_call = super::symbol(library, "miopenConvolutionBiasActivationForward")?;
        Ok(Self { table: Table::resolve(library)?, one_call })
    }
}

/// An operation of a plan; it lives as long as the plan.
pub struct Operation(Object);

/// A fusion plan.
pub struct FusionPlan<'a> {
    miopen: &'a MiOpen,
    plan: Owned,
}

/// Arguments of a plan's operations. Which memory they point to is the case's business.
pub struct FusionArguments<'a> {
    miopen: &'a MiOpen,
    arguments: Owned,
}

/// The other tensor of the one call and its factor, the bias, and the activation.
pub struct Other<'a> {
    /// Factor of the convolution.
    pub alpha1: Scalar,
    /// Factor of z.
    pub alpha2: Scalar,
    /// z, and its memory; none is a null pointer.
    pub z: (&'a Owned, Option<(&'a Memory, usize)>),
    /// The bias.
    pub bias: (&'a Owned, &'a Memory, usize),
    /// The activation descriptor.
    pub activation: &'a Owned,
}

impl MiOpen {
    /// An activation descriptor of a mode, with alpha, beta and gamma.
    pub fn activation(&self, mode: i32, [alpha, beta, gamma]: [f64; 3]) -> Result<Owned> {
        let f = &self.fusion.table;
        let activation = Owned::create("miopenCreateActivationDescriptor", f.create_activation, f.destroy_activation)?;
        // SAFETY: the object lives.
        Status(unsafe { (f.set_activation_descriptor)(activation.raw(), mode, alpha, beta, gamma) })
            .check("miopenSetActivationDescriptor")?;
        Ok(activation)
    }

    /// `miopenCreateFusionPlan`: a vertical one.
    pub fn fusion_plan(&self, input: &Owned) -> (Status, Option<FusionPlan<'_>>) {
        let mut plan = null_mut();
        // SAFETY: `plan` is writable, the descriptor lives.
        let status = Status(unsafe { (self.fusion.table.create_plan)(&mut plan, fusion_direction::VERTICAL_FUSION, input.raw()) });
        let made = status.is_success() && !plan.is_null();
        (status, made.then(|| FusionPlan { miopen: self, plan: Owned::adopt(plan, self.fusion.table.destroy_plan) }))
    }

    /// Arguments for the operations of a plan.
    pub fn fusion_arguments(&self) -> Result<FusionArguments<'_>> {
        let f = &self.fusion.table;
        let arguments = Owned::create("miopenCreateOperatorArgs", f.create_arguments, f.destroy_arguments)?;
        Ok(FusionArguments { miopen: self, arguments })
    }

    /// `miopenConvolutionBiasActivationForward`
    pub fn bias_activation(&self, call: &Call<'_>, other: &Other<'_>, workspace: Workspace<'_>) -> Status {
        let address = |memory: Option<(&Memory, usize)>| memory.map_or(null_mut(), |(memory, offset)| memory.at(offset));
        let [x, w, y] = [0, 1, 2].map(|i| (call.tensors[i].raw(), address(call.memory[i])));
        // SAFETY: all objects live; buffers hold what their descriptors say; z may be null where its factor is 0.
        Status(unsafe {
            (self.fusion.one_call)(
                call.handle.raw(),
                other.alpha1.pointer(),
                x.0,
                x.1,
                w.0,
                w.1,
                call.convolution.raw(),
                fwd_algorithm::DIRECT,
                workspace.pointer(),
                workspace.size,
                other.alpha2.pointer(),
                other.z.0.raw(),
                address(other.z.1),
                other.bias.0.raw(),
                other.bias.1.at(other.bias.2),
                other.activation.raw(),
                y.0,
                y.1,
            )
        })
    }
}

impl FusionPlan<'_> {
    fn table(&self) -> &Table {
        &self.miopen.fusion.table
    }

    /// `miopenCreateOpConvForward`
    pub fn convolution(&self, convolution: &Owned, w: &Owned) -> (Status, Operation) {
        let mut operation = null_mut();
        // SAFETY: all objects live, `operation` is writable.
        let status = unsafe { (self.table().op_convolution)(self.plan.raw(), &mut operation, convolution.raw(), w.raw()) };
        (Status(status), Operation(operation))
    }

    /// `miopenCreateOpBiasForward`
    pub fn bias(&self, bias: &Owned) -> (Status, Operation) {
        let mut operation = null_mut();
        // SAFETY: all objects live, `operation` is writable.
        let status = unsafe { (self.table().op_bias)(self.plan.raw(), &mut operation, bias.raw()) };
        (Status(status), Operation(operation))
    }

    /// `miopenCreateOpActivationForward`
    pub fn activation(&self, mode: i32) -> (Status, Operation) {
        let mut operation = null_mut();
        // SAFETY: the plan lives, `operation` is writable.
        let status = unsafe { (self.table().op_activation)(self.plan.raw(), &mut operation, mode) };
        (Status(status), Operation(operation))
    }

    /// `miopenCompileFusionPlan`
    pub fn compile(&self, handle: &Owned) -> Status {
        // SAFETY: both objects live.
        Status(unsafe { (self.table().compile)(handle.raw(), self.plan.raw()) })
    }

    /// `miopenExecuteFusionPlan`
    pub fn execute(
        &self,
        handle: &Owned,
        x: (&Owned, &Memory, usize),
        y: (&Owned, &Memory, usize),
        arguments: &FusionArguments<'_>,
    ) -> Status {
        // SAFETY: all objects live; buffers hold what their descriptors say, and so do those that the arguments name.
        Status(unsafe {
            (self.table().execute)(handle.raw(), self.plan.raw(), x.0.raw(), x.1.at(x.2), y.0.raw(), y.1.at(y.2), arguments.arguments.raw())
        })
    }
}

impl FusionArguments<'_> {
    /// `miopenSetOpArgsConvForward`, with alpha 1 and beta 0.
    pub fn convolution(&self, operation: &Operation, w: &Memory, offset: usize) -> Status {
        let (one, zero) = (Scalar::Float(1.0), Scalar::Float(0.0));
        // SAFETY: the arguments and the operation's plan live; the scalars are read during the call.
        Status(unsafe {
            (self.miopen.fusion.table.set_convolution)(self.arguments.raw(), operation.0, one.pointer(), zero.pointer(), w.at(offset))
        })
    }

    /// `miopenSetOpArgsBiasForward`, with alpha 1 and beta 0.
    pub fn bias(&self, operation: &Operation, bias: &Memory, offset: usize) -> Status {
        let (one, zero) = (Scalar::Float(1.0), Scalar::Float(0.0));
        // SAFETY: as above.
        Status(unsafe {
            (self.miopen.fusion.table.set_bias)(self.arguments.raw(), operation.0, one.pointer(), zero.pointer(), bias.at(offset))
        })
    }

    /// `miopenSetOpArgsActivForward`, with alpha 1 and beta 0 and the activation's parameters.
    pub fn activation(&self, operation: &Operation, [a, b, c]: [f64; 3]) -> Status {
        let (one, zero) = (Scalar::Float(1.0), Scalar::Float(0.0));
        // SAFETY: as above.
        Status(unsafe {
            (self.miopen.fusion.table.set_activation)(self.arguments.raw(), operation.0, one.pointer(), zero.pointer(), a, b, c)
        })
    }
}
