//! The pure decisions of Fencepost. Nothing here does I/O, awaits, reads a clock or draws a random
//! number: time and randomness are arguments, and what has to happen in the world is returned as a
//! value. Three drivers run the same code: the relay's engine, the seeded simulator, and the model
//! checker.

pub mod audit;
pub mod batch;
pub mod failure;
pub mod header;
pub mod lane;
pub mod limits;
pub mod page;
pub mod position;
pub mod schema;
pub mod share;
pub mod worker;
