//! What the targets share: counting inputs ([`counters`]), and problems as the rules see them ([`native`]).

pub mod counters;
pub mod native;
