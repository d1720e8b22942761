//! The model's and the simulator's tests: one binary.

mod model;
mod simulation;
