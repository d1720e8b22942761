//! The shape of the code base: which crate knows which, who may name what, and how large things get. What
//! clippy can see (clock, randomness, environment, sleep) is in `clippy.toml`; here is who may allow it.

mod edges;
mod names;
mod sizes;
mod sources;
