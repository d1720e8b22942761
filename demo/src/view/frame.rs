//! Draws a board as lines of text. Pure: colours are asked for, never looked up.

use std::time::Duration;

use console::Style;

use crate::board::{Board, RelayLine};
use crate::child::State;
use crate::figures::thousands;

/// Width of a lane's column.
const COLUMN: usize = 7;

/// How lines are coloured.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours or without.
    pub fn new(on: bool) -> Self {
        Paint { on }
    }

    fn with(self, style: Style, text: &str) -> String {
        style.force_styling(self.on).apply_to(text).to_string()
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Beside the point.
    pub fn dim(self, text: &str) -> String {
        self.with(Style::new().dim(), text)
    }

    /// As it should be.
    pub fn good(self, text: &str) -> String {
        self.with(Style::new().green().bold(), text)
    }

    /// As it should not be.
    pub fn bad(self, text: &str) -> String {
        self.with(Style::new().red().bold(), text)
    }

    /// The `index`-th of the actors.
    pub fn actor(self, index: Option<usize>, text: &str) -> String {
        let style = match index {
            Some(0) => Style::new().cyan(),
            Some(_) => Style::new().yellow(),
            None => Style::new(),
        };
        self.with(style, text)
    }
}

/// The live view: about ten lines.
pub fn live(board: &Board, paint: Paint) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!("{}  {:>5.1} s   {}", paint.bold("fencepost demo"), seconds(board.elapsed), paint.dim(&board.place)),
        format!(
            "commits  {:>9} orders      {:>6.0} a second   {} rolled back",
            thousands(board.committed),
            board.rate,
            thousands(board.rolled_back)
        ),
        format!(
            "topic    {:>9} messages    {:>6} lag        {} records repeated",
            thousands(board.distinct),
            thousands(board.lag()),
            thousands(board.records.saturating_sub(board.distinct))
        ),
        format!(
            "effects  {:>9} applied     {:>6} lag        {} repeats absorbed",
            thousands(board.applied),
            thousands(board.committed.saturating_sub(board.applied)),
            thousands(board.absorbed)
        ),
    ];
    lines.extend(lanes(board, paint));
    lines.extend(board.relays.iter().enumerate().map(|(index, line)| relay(index, line, paint)));
    lines
}

/// The lanes in columns: number, owner, generation.
fn lanes(board: &Board, paint: Paint) -> [String; 3] {
    let row = |heading: &str, cell: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..board.lanes.len()).map(cell).collect();
        format!("{heading:<10}{}", cells.concat())
    };
    let pad = |text: &str| format!("{text:>COLUMN$}");
    [
        paint.dim(&row("lane", &|i| pad(&board.lanes[i].lane.to_string()))),
        row("owner", &|i| {
            let owner = board.lanes[i].owner.as_deref();
            let index = board.relays.iter().position(|relay| Some(relay.name.as_str()) == owner);
            paint.actor(index, &pad(owner.unwrap_or("-")))
        }),
        row("generation", &|i| pad(&board.lanes[i].generation.to_string())),
    ]
}

fn relay(index: usize, line: &RelayLine, paint: Paint) -> String {
    let (state, counts) = (state(line.state), line.counts);
    let padded = format!("{state:<8}");
    format!(
        "{} {}  {:>9} published   {} lanes taken over   {} marks rejected",
        paint.actor(Some(index), &format!("{:<8}", line.name)),
        if line.state == State::Running { padded } else { paint.bad(&padded) },
        thousands(counts.published),
        counts.takeovers,
        counts.rejected_marks
    )
}

/// One line for a stream that is not a terminal.
pub fn plain(board: &Board) -> String {
    let relays: Vec<String> = board.relays.iter().map(|relay| held(board, relay)).collect();
    format!(
        "commits {} ({:.0}/s, {} rolled back), topic {}, lag {}, effects {} ({} repeats absorbed); {}",
        thousands(board.committed),
        board.rate,
        thousands(board.rolled_back),
        thousands(board.distinct),
        thousands(board.lag()),
        thousands(board.applied),
        thousands(board.absorbed),
        relays.join("; ")
    )
}

/// `anna running: lanes 0 1 2 (generation 1)`
fn held(board: &Board, relay: &RelayLine) -> String {
    let lanes = board.lanes_of(&relay.name);
    let of = |lane: &i64| board.lanes.iter().find(|one| one.lane == *lane).map(|one| one.generation);
    let mut generations: Vec<i64> = lanes.iter().filter_map(of).collect();
    generations.sort_unstable();
    generations.dedup();
    let numbers = |of: &[i64]| of.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    match lanes.is_empty() {
        true => format!("{} {}: no lane", relay.name, state(relay.state)),
        false => format!(
            "{} {}: lanes {} (generation {})",
            relay.name,
            state(relay.state),
            numbers(&lanes),
            numbers(&generations)
        ),
    }
}

/// `12.3 s  anna     stands still`
pub fn told(at: Duration, actor: (&str, Option<usize>), what: &str, paint: Paint) -> String {
    let (name, index) = actor;
    format!("{} {} {what}", paint.dim(&format!("{:>5.1} s", seconds(at))), paint.actor(index, &format!("{name:<9}")))
}

fn state(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Frozen => "frozen",
        State::Ended(_) => "ended",
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Lane;
    use crate::relay::Counts;

    fn board() -> Board {
        let lane = |lane, owner: &str, generation| Lane { lane, owner: Some(owner.into()), generation };
        let relay = |name: &str, state, takeovers| RelayLine {
            name: name.into(),
            state,
            counts: Counts { takeovers, rejected_marks: 0, published: 1_700 },
        };
        Board {
            elapsed: Duration::from_millis(9_440),
            place: "PostgreSQL, embedded broker".into(),
            committed: 3_412,
            rate: 301.4,
            rolled_back: 180,
            records: 3_410,
            distinct: 3_398,
            applied: 3_390,
            absorbed: 12,
            relays: vec![relay("anna", State::Frozen, 0), relay("ben", State::Running, 1)],
            lanes: vec![lane(0, "ben", 2), lane(1, "ben", 1), Lane { lane: 2, owner: None, generation: 1 }],
        }
    }

    #[test]
    fn the_live_view_shows_commits_lanes_owners_generations_rate_lag_and_effects() {
        let lines = live(&board(), Paint::new(false)).join("\n");
        let expected = "
fencepost demo    9.4 s   PostgreSQL, embedded broker
commits      3,412 orders         301 a second   180 rolled back
topic        3,398 messages        14 lag        12 records repeated
effects      3,390 applied         22 lag        12 repeats absorbed
lane            0      1      2
owner         ben    ben      -
generation      2      1      1
anna     frozen        1,700 published   0 lanes taken over   0 marks rejected
ben      running       1,700 published   1 lanes taken over   0 marks rejected";
        assert_eq!(lines, expected, "\n{lines}");
    }

    #[test]
    fn a_plain_line_says_the_same() {
        assert_eq!(
            plain(&board()),
            "commits 3,412 (301/s, 180 rolled back), topic 3,398, lag 14, effects 3,390 (12 repeats absorbed); \
             anna frozen: no lane; ben running: lanes 0 1 (generation 1 2)"
        );
    }

    #[test]
    fn without_colour_there_is_no_escape() {
        let all =
            [live(&board(), Paint::new(false)).join(""), told(Duration::ZERO, ("a", Some(0)), "b", Paint::new(false))];
        assert!(all.iter().all(|text| !text.contains('\u{1b}')));
        assert!(live(&board(), Paint::new(true)).join("").contains('\u{1b}'));
    }
}
