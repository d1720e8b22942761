//! What operators do, apart from how they ask for it: the command line today, more over HTTP later. Works on ports alone.

pub mod audit;
pub mod lane;
pub mod status;
