//! `hipdnn-shim`: the offline tools.
fn main() {}
