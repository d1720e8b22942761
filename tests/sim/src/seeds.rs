//! Where seeds come from: pinned ones that failed once, then random ones until a budget of wall-clock time is
//! spent. The home of this crate's clock, randomness and environment.

use std::time::{Duration, Instant};

/// Replays one seed alone.
const ONE_SEED: &str = "FENCEPOST_SIM_SEED";

/// Calls `run` with each pinned seed and with new ones until `budget` is spent; prints each before it runs.
///
/// # Panics
/// When `FENCEPOST_SIM_SEED` is set and no number.
#[allow(clippy::disallowed_methods, reason = "the home of the simulator's seeds and of its budget")]
pub fn for_seeds(pinned: &[u64], budget: Duration, run: impl Fn(u64)) {
    let run = |seed: u64| {
        eprintln!("{ONE_SEED}={seed}");
        run(seed);
    };
    if let Ok(seed) = std::env::var(ONE_SEED) {
        return run(seed.parse().expect("FENCEPOST_SIM_SEED is a number"));
    }
    pinned.iter().copied().for_each(run);
    let start = Instant::now();
    while start.elapsed() < budget {
        run(fastrand::u64(..));
    }
}
