//! What the machine tells about processes and about itself, read from `/proc`.

mod find;
mod machine;
mod process;

pub(crate) use find::{broker, postmaster};
pub(crate) use machine::Machine;
pub(crate) use process::{CpuNs, children_cpu, cpu, is_stopped, peak_rss_bytes, session_cpu};
