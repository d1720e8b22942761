//! Single steps of the worker that are easy to get wrong, each as a script of inputs and the actions that must
//! follow. The model and the simulator in `tests/sim` look at what such steps add up to.

mod bench;
mod failures;
mod leases;
mod marks;
mod reading;
