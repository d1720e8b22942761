//! Baseline.
fn main() {}
