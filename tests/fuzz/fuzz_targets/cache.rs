//! A cache file to its reader: as it is; and, so that the digest is no wall, with a header that fits. What is read is an entry of what was
//! written, and records that are read are read alike when they are written again.
#![no_main]

use std::sync::LazyLock;

use fuzz_targets::{counters::Counters, native};
use hipdnn_host::{
    cache::{
        EntryKey, Kind,
        disk::entry::{decode, encode, payload},
        record::{PlanRecord, TranslationRecord, from_bytes, to_bytes},
    },
    capabilities::Capabilities,
    judge::arguments,
    offline::{choices::Choices, problems::generate},
    validate::validate,
};
use libfuzzer_sys::fuzz_target;

static COUNTERS: Counters = Counters::new();
static ABI: LazyLock<Capabilities> = LazyLock::new(Capabilities::whole_abi);

fuzz_target!(|data: &[u8]| {
    COUNTERS.input();
    for kind in [Kind::Translation, Kind::Plan] {
        if let Ok((key, payload)) = decode(data, kind) {
            assert!(encode(&key, payload).as_deref() == Some(data), "read, but not what is written");
        }
    }
    let Some((&selector, rest)) = data.split_first() else { return };
    // Bytes as they come hardly ever are a record: every other body is one that was bent.
    let body = if selector % 8 >= 4 { bent(rest) } else { rest.to_vec() };
    let body = body.as_slice();
    let kind = if selector % 2 == 0 { Kind::Translation } else { Kind::Plan };
    let key = EntryKey::new(kind, &[b"key"]);
    let Some(mut file) = encode(&key, body) else { return };
    if selector % 4 >= 2 && !body.is_empty() {
        // One flipped bit anywhere is never read.
        let bit = usize::from(selector / 4) * 7919 % (file.len() * 8);
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(payload(&file, &key).is_err(), "bit {bit} is flipped");
        return;
    }
    let read = payload(&file, &key).expect("it was written so");
    match kind {
        Kind::Translation => translation(read, body),
        _ => {
            if let Some(record) = from_bytes::<PlanRecord>(read) {
                COUNTERS.past();
                assert_eq!(from_bytes::<PlanRecord>(&to_bytes(&record)), Some(record));
            }
        }
    }
});

/// What the rules answer to a problem, written, with a few bytes changed.
fn bent(data: &[u8]) -> Vec<u8> {
    let choices = &mut Choices::of_bytes(data);
    let problem = generate::sound(choices);
    let mut bytes = problem.with(|problem| to_bytes(&native::translate(problem, &ABI)));
    for _ in 0..choices.below(4) {
        let at = choices.below(bytes.len());
        match choices.below(3) {
            0 => bytes[at] ^= 1 << choices.below(8),
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, choices.below(256) as u8),
        }
    }
    bytes
}

fn translation(read: &[u8], body: &[u8]) {
    let Some(record) = from_bytes::<TranslationRecord>(read) else { return };
    COUNTERS.past();
    let written = to_bytes(&record);
    // Not equal as values: numbers that are none are not equal to themselves.
    assert_eq!(from_bytes::<TranslationRecord>(&written).map(|again| to_bytes(&again)), Some(written));
    if let Ok(graph) = record {
        // As untrusted as a translator's reply.
        let problem = generate::sound(&mut Choices::of_bytes(body));
        problem.with(|problem| arguments(problem).map(|arguments| validate(graph, &arguments).is_ok()));
    }
}
