//! The program `fencepost-demo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fencepost_demo::program::run()
}
