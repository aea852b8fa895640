//! Answers as they are written: bytes that another process can read. A change of any type here (or of the graph's) is another
//! [`super::disk::entry::FORMAT`].

use hipdnn_abi::behavior_note;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::graph::{ReceivedDecline, ReceivedGraph};

/// What a translator answered. As untrusted as when it came from the translator itself.
pub type TranslationRecord = Result<ReceivedGraph, ReceivedDecline>;

/// How a graph's plan is made without asking which engines there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanRecord {
    /// With this engine.
    Engine(EngineRecord),
    /// Not at all.
    Refused(Refusal),
}

/// The engine of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// Its id.
    pub id: i64,
    /// Knobs that were set to another value than the engine's own.
    pub knobs: Vec<Knob>,
    /// What it does, in the backend's numbers (`hipdnnBackendBehaviorNote_t`).
    pub notes: Vec<i32>,
    /// The plan, as the backend wrote it. Code, as far as we know.
    pub bytes: Option<Vec<u8>>,
}

impl EngineRecord {
    /// Whether it may run while its stream is being captured.
    pub fn captures(&self) -> bool {
        self.notes.contains(&behavior_note::SUPPORTS_GRAPH_CAPTURE)
    }

    /// Whether its plans can be written.
    pub fn serializes(&self) -> bool {
        self.notes.contains(&behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION)
    }
}

/// A knob and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knob {
    /// Its id, as the engine lists it.
    pub id: String,
    /// Its value.
    pub value: i64,
}

/// That there is no plan, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub cause: Cause,
    /// The alignment in bytes that was asked for: calls with any other are not bound by the answer.
    pub alignment: u64,
    /// What the backend said.
    pub message: String,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// No engine takes the graph.
    NoEngine,
    /// The alignment cannot be declared.
    Alignment,
}

/// A record as bytes.
pub fn to_bytes(record: &impl Serialize) -> Vec<u8> {
    // Lists, numbers and text only: nothing that the format cannot hold.
    postcard::to_allocvec(record).unwrap_or_default()
}

/// A record from bytes; `None` if they are none.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((record, [])) => Some(record),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data_type::DataType,
        graph::{Access, Attribute, Binding, Node, Tensor, Value},
    };

    fn graph() -> ReceivedGraph {
        let values = [
            Value::Tensor(1),
            Value::Tensors(vec![1, 2]),
            Value::Integers(vec![-1, i64::MAX]),
            Value::Floats(vec![0.5]),
            Value::Doubles(vec![f64::MIN]),
            Value::Flag(true),
            Value::DataType(DataType::BFloat16),
            Value::Enumeration(-7),
            Value::Text("text".into()),
        ];
        let attributes = values.into_iter().zip(100..).map(|(value, number)| Attribute { number, value }).collect();
        let tensor =
            Tensor { uid: 1, data_type: DataType::Half, dims: vec![1, 2], strides: vec![2, 1], is_virtual: false, value: Some(vec![0, 1]) };
        ReceivedGraph {
            tensors: vec![tensor],
            nodes: vec![Node { operation: 12, attributes }],
            compute_type: Some(DataType::Float),
            intermediate_type: None,
            io_type: None,
            bindings: vec![Binding { uid: 1, argument: 3, access: Access::Write }],
            notes: vec!["note".into()],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let record: TranslationRecord = Ok(graph());
        assert_eq!(from_bytes(&to_bytes(&record)), Some(record));
        let record: TranslationRecord = Err(ReceivedDecline { rule: "a.b".into(), message: "c".into() });
        assert_eq!(from_bytes(&to_bytes(&record)), Some(record));
        let refusal = Refusal { cause: Cause::NoEngine, alignment: 16, message: "none".into() };
        assert_eq!(from_bytes(&to_bytes(&PlanRecord::Refused(refusal.clone()))), Some(PlanRecord::Refused(refusal)));
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let bytes = to_bytes(&TranslationRecord::Ok(graph()));
        for length in 0..bytes.len() {
            assert_eq!(from_bytes::<TranslationRecord>(&bytes[..length]), None, "{length}");
        }
        assert_eq!(from_bytes::<TranslationRecord>(&[&bytes[..], &[0]].concat()), None);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Whatever it is now, it is bounded by its bytes, and validated later.
            let _ = from_bytes::<TranslationRecord>(&flipped);
        }
        // A list that claims to be longer than memory.
        assert_eq!(from_bytes::<TranslationRecord>(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), None);
    }
}
