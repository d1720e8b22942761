//! Compare: drains of the relay interleaved with those of the baseline, on the same servers in the same
//! hour. Only ratios of one such run mean anything; absolute rates move with the machine.

use clap::Args;
use serde_json::json;

use crate::contestant::{Contestant, RelaySetup};
use crate::drain::{Drained, Shape, once, relay_figures};
use crate::error::Result;
use crate::raw;
use crate::report::{Cell, Figure, Goal, Report, Run, median};
use crate::rig::Rig;

/// What the baseline has to reach with 1 and with 4 workers, or the comparison says nothing: on a
/// machine that produces [`RAW_REFERENCE`] records a second, scaled by that rate on a slower one.
const BASELINE_MIN: [f64; 2] = [35_000.0, 65_000.0];
/// Raw produce rate (`bench raw`) of a run in which the baseline reached 40,000 and 80,000, so more than those.
const RAW_REFERENCE: f64 = 190_000.0;

const RAW_MESSAGES: u64 = 500_000;

/// Options of `bench compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    shape: Shape,
    /// Messages of a baseline's drain: it is slower, and its rate doesn't change with the length.
    #[arg(long, default_value_t = 500_000)]
    baseline_messages: u64,
    /// Rounds of one drain of each; the figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leave the relay out: only whether the baseline counts.
    #[arg(long)]
    baseline_only: bool,
}

const RELAY: Contestant = Contestant::Relay(RelaySetup { cloudevents: true, long_lease: true });
const ONE: Contestant = Contestant::Baseline { workers: 1 };
const FOUR: Contestant = Contestant::Baseline { workers: 4 };

/// `bench compare`.
pub(crate) async fn run(rig: &Rig, args: &CompareArgs) -> Result<Report> {
    let contestants = if args.baseline_only { vec![ONE, FOUR] } else { vec![RELAY, ONE, FOUR] };
    let baseline_shape = Shape { messages: args.baseline_messages, ..args.shape.clone() };
    let mut raw_rates = Vec::new();
    let mut drained: Vec<(Contestant, Drained)> = Vec::new();
    for round in 0..args.rounds {
        raw_rates.push(raw_rate(rig, &args.shape).await?);
        for step in 0..contestants.len() {
            // each round begins with another one, so that drift hits all alike
            let contestant = contestants[(round + step) % contestants.len()];
            eprintln!("compare, round {} of {}: {}", round + 1, args.rounds, contestant.name());
            let shape = if contestant == RELAY { &args.shape } else { &baseline_shape };
            drained.push((contestant, once(rig, contestant, shape).await?));
        }
    }
    let raw = median(raw_rates);
    let mut runs: Vec<Run> = drained.iter().map(|(_, run)| run.row()).collect();
    runs.extend(contestants.iter().map(|contestant| medians(&drained, *contestant)));
    Ok(Report {
        scenario: "compare",
        machine: rig.machine.clone(),
        settings: json!({
            "shape": args.shape, "baseline_messages": args.baseline_messages, "rounds": args.rounds,
            "raw_produce_rate": raw.round(),
        }),
        faithful: drained.iter().all(|(_, run)| run.holds),
        figures: figures(&drained, raw, args.baseline_only),
        runs,
    })
}

async fn raw_rate(rig: &Rig, shape: &Shape) -> Result<f64> {
    let messages = shape.messages.min(RAW_MESSAGES);
    let (rate, _) = raw::once(rig, messages, shape.keys, shape.payload_bytes, shape.partitions).await?;
    eprintln!("raw produce rate: {rate:.0} messages/s");
    Ok(rate)
}

fn of(drained: &[(Contestant, Drained)], contestant: Contestant) -> Vec<Drained> {
    drained.iter().filter(|(who, _)| *who == contestant).map(|(_, run)| run.clone()).collect()
}

fn rate(drained: &[(Contestant, Drained)], contestant: Contestant) -> f64 {
    median(of(drained, contestant).iter().map(|run| run.rate))
}

/// A row of medians.
fn medians(drained: &[(Contestant, Drained)], contestant: Contestant) -> Run {
    let rows: Vec<Run> = of(drained, contestant).iter().map(Drained::row).collect();
    let columns = rows.first().map_or(0, |row| row.cells.len());
    let cell = |column: usize| -> Cell { Cell::median(rows.iter().map(|row| &row.cells[column])) };
    Run { label: format!("{}, median", contestant.name()), cells: (0..columns).map(cell).collect() }
}

fn figures(drained: &[(Contestant, Drained)], raw: f64, baseline_only: bool) -> Vec<Figure> {
    let scale = (raw / RAW_REFERENCE).min(1.0);
    let (one, four) = (rate(drained, ONE), rate(drained, FOUR));
    let mut figures = vec![
        Figure::new("baseline counts, 1 worker", "messages/s", one, Goal::AtLeast((BASELINE_MIN[0] * scale).round())),
        Figure::new("baseline counts, 4 workers", "messages/s", four, Goal::AtLeast((BASELINE_MIN[1] * scale).round())),
    ];
    if !baseline_only {
        let relay = rate(drained, RELAY);
        figures.extend(relay_figures(&of(drained, RELAY), false));
        figures.push(Figure::new("to the baseline with 4 workers", "times", relay / four, Goal::AtLeast(1.8)));
        figures.push(Figure::new("to the baseline with 1 worker", "times", relay / one, Goal::AtLeast(3.0)));
    }
    figures
}
