//! Descriptors: the rules that all of them share, driven by the ABI table. What one kind adds is in the module of that kind, behind
//! [`Kind`].

mod engine;
mod graph;
mod heuristic;
mod knob;
mod operation;
mod plan;
mod profiling;
mod tensor;
mod variant_pack;

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use hipdnn_abi::{AttributeSpec, Count, DescriptorSpec, Need, attribute, attribute_type, descriptor_type, status};
use parking_lot::RwLock;

pub(crate) use self::{
    engine::{Choice, Configuration},
    graph::BoundGraph,
    plan::loaded as loaded_plan,
    variant_pack::Pack,
};
use crate::{
    error::{Error, Result},
    graph::Tensor,
    plan::Plan,
    value::Value,
};

/// The most elements that are believed. The real backend trusts counts; a wild one should answer instead of reading wild memory.
const MAX_ELEMENTS: i64 = 1 << 20;

/// Attributes that can be set, but not read back.
const WRITE_ONLY: &[i32] = &[
    attribute::OPERATIONGRAPH_HANDLE,
    attribute::ENGINECFG_KNOB_CHOICES,
    attribute::KNOB_CHOICE_SERIALIZED_VALUE,
    attribute::EXECUTION_PLAN_HANDLE,
    attribute::PROFILING_HANDLE_EXT,
    attribute::PROFILING_START_EXT,
    attribute::PROFILING_STOP_EXT,
    attribute::PROFILING_DEVICE_SYNC_EXT,
    attribute::PROFILING_STALL_ARM_EXT,
    attribute::PROFILING_STALL_RELEASE_EXT,
    attribute::PROFILING_RESET_EXT,
];

/// `CHAR` attributes that are bytes, not text: no NUL is counted or written.
const RAW_BYTES: &[i32] = &[attribute::TENSOR_VALUE_EXT, attribute::KNOB_INFO_VALID_VALUES_STRING];

/// Attributes that do not answer a query of the count: exactly one element must be asked for.
const NO_COUNT_QUERY: &[i32] = &[attribute::ENGINECFG_WORKSPACE_SIZE, attribute::ENGINEHEUR_OPERATION_GRAPH, attribute::ENGINEHEUR_MODE];

/// What a descriptor was turned into by finalizing it. Shared by everything that refers to the descriptor.
#[derive(Clone)]
pub(crate) enum Built {
    /// Nothing beyond its attributes.
    Attributes,
    /// A tensor.
    Tensor(Arc<Tensor>),
    /// An operation graph and the handle it was made for.
    Graph(Arc<BoundGraph>),
    /// The engines that can run a graph, best first.
    Heuristic(Arc<Vec<Choice>>),
    /// An engine for a graph.
    Engine(Choice),
    /// An engine with its knobs.
    Configuration(Arc<Configuration>),
    /// Something that can be executed.
    Plan(Arc<Plan>),
    /// What to execute it on.
    Pack(Arc<Pack>),
}

/// What one kind of descriptor adds to the shared rules.
pub(crate) trait Kind: Sync {
    /// Checks, or replaces, a value before it is stored. Type, count, enum values, and children being live are already checked.
    fn accept(&self, _object: &Object, _number: i32, value: Value) -> Result<Value> {
        Ok(value)
    }

    /// The kind of descriptor that an attribute takes; `None` if [`Kind::accept`] decides.
    fn child(&self, _number: i32) -> Option<i32> {
        Some(descriptor_type::BACKEND_TENSOR_DESCRIPTOR)
    }

    /// Checks what spans several attributes, and builds. Required attributes are already checked.
    fn finalize(&self, _object: &Arc<Object>) -> Result<Built> {
        Ok(Built::Attributes)
    }

    /// A value that is not simply what was set.
    fn computed(&self, _object: &Object, _number: i32) -> Result<Option<Value>> {
        Ok(None)
    }

    /// The status of finalizing again, if that is an error.
    fn finalize_again(&self) -> Result<()> {
        Ok(())
    }

    /// The status of reading before finalizing, if that is an error.
    fn unfinalized_get(&self) -> Result<()> {
        Err(Error::new(status::NOT_INITIALIZED, "read before finalize"))
    }
}

/// [`Kind::finalize_again`] for the kinds that check.
fn finalized_twice() -> Result<()> {
    Err(Error::bad("finalized twice"))
}

fn kind_of(spec: &DescriptorSpec) -> Option<&'static dyn Kind> {
    Some(match spec.kind {
        _ if spec.is_operation => &operation::Operation,
        descriptor_type::BACKEND_TENSOR_DESCRIPTOR => &tensor::TensorKind,
        descriptor_type::BACKEND_OPERATIONGRAPH_DESCRIPTOR => &graph::GraphKind,
        descriptor_type::BACKEND_ENGINEHEUR_DESCRIPTOR => &heuristic::HeuristicKind,
        descriptor_type::BACKEND_ENGINE_DESCRIPTOR => &engine::EngineKind,
        descriptor_type::BACKEND_ENGINECFG_DESCRIPTOR => &engine::ConfigurationKind,
        descriptor_type::BACKEND_EXECUTION_PLAN_DESCRIPTOR => &plan::PlanKind,
        descriptor_type::BACKEND_VARIANT_PACK_DESCRIPTOR => &variant_pack::PackKind,
        descriptor_type::BACKEND_KNOB_INFO_DESCRIPTOR => &knob::KnobInfo,
        descriptor_type::BACKEND_KNOB_CHOICE_DESCRIPTOR => &knob::KnobChoice,
        descriptor_type::BACKEND_PROFILING_CONTROL_EXT => &profiling::Profiling,
        _ => return None,
    })
}

/// The shared content behind one or more descriptor handles.
pub(crate) struct Object {
    spec: &'static DescriptorSpec,
    rules: &'static dyn Kind,
    finalized: AtomicBool,
    values: RwLock<BTreeMap<i32, Value>>,
    built: OnceLock<Built>,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(self.spec.name).field("finalized", &self.is_finalized()).finish_non_exhaustive()
    }
}

/// One `hipdnnBackendGetAttribute`.
pub(crate) struct Request {
    pub(crate) number: i32,
    pub(crate) wire: i32,
    pub(crate) requested: i64,
    pub(crate) count: *mut i64,
    pub(crate) array: *mut c_void,
}

impl Object {
    /// An empty descriptor, if the backend has the type.
    pub(crate) fn new(kind: i32) -> Result<Arc<Self>> {
        let refuse = || Error::unsupported(format!("descriptor type {kind} is not supported"));
        let spec = hipdnn_abi::descriptor(kind).filter(|_| !hipdnn_abi::UNSUPPORTED_DESCRIPTOR_TYPES.contains(&kind)).ok_or_else(refuse)?;
        let rules = kind_of(spec).ok_or_else(refuse)?;
        let (values, built) = (RwLock::default(), OnceLock::new());
        Ok(Arc::new(Self { spec, rules, finalized: AtomicBool::new(false), values, built }))
    }

    /// A finalized descriptor made by the backend itself.
    pub(crate) fn finalized(kind: i32, values: impl IntoIterator<Item = (i32, Value)>) -> Result<Arc<Self>> {
        let object = Self::new(kind)?;
        object.values.write().extend(values);
        object.finalize()?;
        Ok(object)
    }

    /// A finalized descriptor that was not built from attributes.
    fn from_built(kind: i32, built: Built) -> Result<Arc<Self>> {
        let object = Self::new(kind)?;
        let _ = object.built.set(built);
        object.finalized.store(true, Ordering::Release);
        Ok(object)
    }

    /// `hipdnnBackendDescriptorType_t`.
    pub(crate) fn kind(&self) -> i32 {
        self.spec.kind
    }

    /// Whether it can be a node of a graph.
    pub(crate) fn is_operation(&self) -> bool {
        self.spec.is_operation
    }

    /// Whether it is frozen.
    pub(crate) fn is_finalized(&self) -> bool {
        self.finalized.load(Ordering::Acquire)
    }

    /// What finalizing made of it; the status that the ABI gives if it is not finalized.
    pub(crate) fn built(&self) -> Result<&Built> {
        self.built.get().filter(|_| self.is_finalized()).ok_or_else(|| Error::not_finalized(self.spec.name))
    }

    /// A stored value.
    pub(crate) fn value(&self, number: i32) -> Option<Value> {
        self.values.read().get(&number).cloned()
    }

    /// Every stored value.
    pub(crate) fn values(&self) -> BTreeMap<i32, Value> {
        self.values.read().clone()
    }

    /// The first integer of a stored value.
    pub(crate) fn int64(&self, number: i32) -> Option<i64> {
        self.value(number).and_then(|value| value.int64s().first().copied())
    }

    /// The only number of a stored enum.
    pub(crate) fn int32(&self, number: i32) -> Option<i32> {
        self.value(number).and_then(|value| value.int32s().first().copied())
    }

    /// A stored flag, false if unset.
    pub(crate) fn flag(&self, number: i32) -> bool {
        self.value(number).is_some_and(|value| value.flag())
    }

    /// The only child of a stored attribute.
    pub(crate) fn child(&self, number: i32) -> Result<Arc<Object>> {
        let missing = || Error::bad(format!("{} has no {}", self.spec.name, self.name(number)));
        self.value(number).and_then(|value| value.descriptors().first().cloned()).ok_or_else(missing)
    }

    fn attribute(&self, number: i32) -> Result<&'static AttributeSpec> {
        let common = operation::COMMON.iter().filter(|_| self.spec.is_operation).find(|spec| spec.number == number);
        let unknown = || Error::unsupported(format!("{} has no attribute {}", self.spec.name, self.name(number)));
        self.spec.attribute(number).or(common).ok_or_else(unknown)
    }

    fn name(&self, number: i32) -> String {
        let known = hipdnn_abi::name_in(attribute::ALL, number);
        known.map_or_else(|| number.to_string(), |name| name.trim_start_matches("HIPDNN_ATTR_").to_string())
    }

    /// `hipdnnBackendSetAttribute`.
    ///
    /// # Safety
    /// `data` is null or holds `count` elements of the wire type.
    pub(crate) unsafe fn set(&self, number: i32, wire: i32, count: i64, data: *const c_void) -> Result<()> {
        // Timing can be reset at any time; nothing else can change once it is finalized.
        if self.is_finalized() && number != attribute::PROFILING_RESET_EXT {
            return Err(Error::new(status::NOT_INITIALIZED, format!("{} is finalized", self.spec.name)));
        }
        let spec = self.attribute(number)?;
        if spec.need == Need::ReadOnly {
            return Err(Error::unsupported(format!("{} can only be read", self.name(number))));
        }
        self.check_type(spec, wire)?;
        let count = self.check_count(spec, wire, count)?;
        if data.is_null() && !(count == 0 && number == attribute::ENGINEHEUR_POLICY_ORDER_EXT) {
            return Err(Error::null(format!("the array for {}", self.name(number))));
        }
        // SAFETY: not null unless empty; holds `count` elements by the contract of this function.
        let value = unsafe { Value::read(wire, count, data)? };
        self.check_children(number, &value)?;
        let value = self.rules.accept(self, number, value)?;
        self.values.write().insert(number, value);
        Ok(())
    }

    fn check_type(&self, spec: &AttributeSpec, wire: i32) -> Result<()> {
        if spec.types.contains(&wire) {
            return Ok(());
        }
        let wire = hipdnn_abi::name_in(attribute_type::ALL, wire).map_or_else(|| wire.to_string(), str::to_string);
        Err(Error::bad(format!("{} does not take type {wire}", self.name(spec.number))))
    }

    fn check_count(&self, spec: &AttributeSpec, wire: i32, count: i64) -> Result<usize> {
        let may_be_empty = wire == attribute_type::CHAR || spec.number == attribute::ENGINEHEUR_POLICY_ORDER_EXT;
        let fits = match is_scalar(spec, wire) {
            true => count == 1,
            false => count >= i64::from(!may_be_empty) && count <= MAX_ELEMENTS,
        };
        match usize::try_from(count) {
            Ok(count) if fits => Ok(count),
            _ => Err(Error::bad(format!("{} does not take {count} elements", self.name(spec.number)))),
        }
    }

    fn check_children(&self, number: i32, value: &Value) -> Result<()> {
        let Some(wanted) = self.rules.child(number) else { return Ok(()) };
        for child in value.descriptors() {
            if child.kind() != wanted {
                return Err(Error::bad(format!("{} does not take a {}", self.name(number), child.spec.name)));
            }
            if !child.is_finalized() {
                return Err(Error::not_finalized(format!("{} for {}", child.spec.name, self.name(number))));
            }
        }
        Ok(())
    }

    /// `hipdnnBackendFinalize`.
    pub(crate) fn finalize(self: &Arc<Self>) -> Result<()> {
        if self.is_finalized() {
            return self.rules.finalize_again();
        }
        for spec in self.spec.attributes.iter().filter(|spec| spec.need == Need::Required) {
            if !self.values.read().contains_key(&spec.number) {
                return Err(Error::bad(format!("{} needs {}", self.spec.name, self.name(spec.number))));
            }
        }
        let built = self.rules.finalize(self)?;
        // Two threads finalizing one descriptor build the same; the first is kept.
        let _ = self.built.set(built);
        self.finalized.store(true, Ordering::Release);
        Ok(())
    }

    /// `hipdnnBackendGetAttribute`.
    ///
    /// # Safety
    /// The request's array and count are null or writable, the array for as many elements as requested.
    pub(crate) unsafe fn get(self: &Arc<Self>, request: &Request) -> Result<()> {
        if !self.is_finalized() {
            self.rules.unfinalized_get()?;
        }
        let spec = self.attribute(request.number)?;
        if WRITE_ONLY.contains(&request.number) {
            return Err(Error::unsupported(format!("{} can only be set", self.name(request.number))));
        }
        self.check_type(spec, request.wire)?;
        if request.requested < 0 {
            return Err(Error::bad(format!("{} elements of {} requested", request.requested, self.name(request.number))));
        }
        if request.number == attribute::ENGINEHEUR_RESULTS {
            // SAFETY: by the contract of this function.
            return unsafe { heuristic::results(self, request) };
        }
        let value = self.rules.computed(self, request.number)?.or_else(|| self.value(request.number));
        // SAFETY: by the contract of this function.
        unsafe { self.answer(spec, request, value) }
    }

    /// # Safety
    /// As for [`Object::get`].
    unsafe fn answer(&self, spec: &AttributeSpec, request: &Request, value: Option<Value>) -> Result<()> {
        let text = request.wire == attribute_type::CHAR && !RAW_BYTES.contains(&request.number);
        let stored = match value {
            Some(Value::Bytes(mut bytes)) if text => {
                bytes.push(0);
                Some(Value::Bytes(bytes))
            }
            None if text && spec.types.len() == 1 => Some(Value::Bytes(vec![0])),
            other => other,
        };
        if stored.as_ref().is_some_and(|value| !value.has_type(request.wire)) {
            return Err(Error::bad(format!("{} was set with another type", self.name(request.number))));
        }
        let total = stored.as_ref().map_or(0, Value::len);
        if self.asks_for_count(spec, request, total)? {
            // SAFETY: `count` is null or writable.
            return unsafe { write_count(request.count, total, true) };
        }
        let copied = total.min(usize::try_from(request.requested).unwrap_or(usize::MAX));
        if let Some(value) = stored {
            // SAFETY: `copied` is at most what was requested, for which the array is writable, and at most the length.
            unsafe { value.write(copied, request.array) };
        }
        if text && copied > 0 {
            // SAFETY: the last copied byte lies within the array.
            unsafe { request.array.cast::<u8>().add(copied - 1).write(0) };
        }
        let reported = if request.wire == attribute_type::BACKEND_DESCRIPTOR { total } else { copied };
        // SAFETY: `count` is null or writable.
        unsafe { write_count(request.count, reported, false) }
    }

    /// Whether only the count is wanted; an error if the requested number does not suit the attribute.
    fn asks_for_count(&self, spec: &AttributeSpec, request: &Request, total: usize) -> Result<bool> {
        let name = || self.name(request.number);
        if request.number == attribute::VARIANT_PACK_DATA_POINTERS && request.array.is_null() {
            return Err(Error::null(format!("the array for {}", name())));
        }
        if NO_COUNT_QUERY.contains(&request.number) && request.requested != 1 {
            return Err(Error::bad(format!("exactly one element of {} must be requested", name())));
        }
        if request.array.is_null() || request.requested == 0 {
            return Ok(true);
        }
        if is_scalar(spec, request.wire) && request.requested != 1 {
            return Err(Error::bad(format!("{} has one element, {} requested", name(), request.requested)));
        }
        let too_small = request.number == attribute::EXECUTION_PLAN_TENSOR_UIDS_EXT && (request.requested as usize) < total;
        if too_small { Err(Error::bad(format!("{} has {total} elements", name()))) } else { Ok(false) }
    }
}

/// Attributes that take several types (values of knobs) take one number or one text.
fn is_scalar(spec: &AttributeSpec, wire: i32) -> bool {
    wire != attribute_type::CHAR && (spec.count == Count::One || spec.types.len() > 1)
}

/// # Safety
/// `count` is null or writable.
unsafe fn write_count(count: *mut i64, value: usize, required: bool) -> Result<()> {
    if count.is_null() {
        return if required { Err(Error::null("elementCount")) } else { Ok(()) };
    }
    // SAFETY: writable by the contract of this function.
    unsafe { count.write(value as i64) };
    Ok(())
}
