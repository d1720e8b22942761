//! `fencepost lane`

use clap::{ArgGroup, Args, Subcommand};
use fencepost_core::lane::LaneId;

use super::{CliError, Exit, Output};
use crate::ops::lane::{LaneLine, ReleaseError};
use crate::store::admin::{InitAt, InitError, InitLanes, InitReport};

/// Show and repair lanes.
#[derive(Debug, Subcommand)]
pub enum Lane {
    /// Show every lane: its lease, position and backlog.
    List {
        /// Only this source.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make lanes that are missing, and give a position to lanes that have none.
    ///
    /// Without --yes it only says what it would do.
    Init(Init),
    /// Free a lane whose owner is gone, before its lease ends by itself.
    Release {
        /// Number of the lane.
        #[arg(value_parser = clap::value_parser!(i16).range(0..))]
        lane: i16,
        /// Which source; may be left out where there is one.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Also if its owner is alive: what it has in flight is then sent again.
        #[arg(long)]
        force: bool,
    },
}

/// What `lane init` is told.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("at").required(true).args(["from_beginning", "after_id"]))]
pub struct Init {
    /// Start with the first message that is still in the log: messages may be published again.
    #[arg(long)]
    pub from_beginning: bool,
    /// Start after this id. Messages up to it that are committed by now count as delivered; all others are published,
    /// also those below it whose transaction is still open.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    pub after_id: Option<i64>,
    /// Which source; may be left out where there is one.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Move lanes that have a position too, backward or forward. Stop the relays first.
    #[arg(long)]
    pub force: bool,
    /// Do it.
    #[arg(long)]
    pub yes: bool,
}

impl Init {
    /// What is asked for.
    pub fn wish(&self) -> InitLanes {
        let at = self.after_id.map_or(InitAt::Beginning, InitAt::AfterId);
        InitLanes { at, force: self.force, dry_run: !self.yes }
    }
}

/// Prints lanes of one or more sources.
///
/// # Errors
/// Of the stream.
pub fn print(sources: &[(String, Vec<LaneLine>)], json: bool, out: &mut Output<'_>) -> Result<(), CliError> {
    if json {
        let by_name: std::collections::BTreeMap<_, _> = sources.iter().map(|(name, lanes)| (name, lanes)).collect();
        return out.json(&by_name);
    }
    let rows: Vec<_> = sources.iter().flat_map(|(name, lanes)| lanes.iter().map(move |lane| row(name, lane))).collect();
    out.table(
        ["SOURCE", "LANE", "SLOTS", "OWNER", "GENERATION", "LEASE", "SEEN", "BATCH", "DELIVERED", "WAITING", "OLDEST"],
        &rows,
    )
}

fn row(source: &str, lane: &LaneLine) -> [String; 11] {
    let seconds = |value: Option<f64>| value.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s"));
    let number = |value: Option<i64>| value.map_or("-".to_owned(), |number| number.to_string());
    let lease = match lane.lease_seconds {
        Some(left) if left <= 0.0 => "ended".to_owned(),
        left => seconds(left),
    };
    [
        source.to_owned(),
        lane.lane.to_string(),
        format!("{}-{}", lane.slots.0, lane.slots.1),
        lane.owner.clone().unwrap_or_else(|| "-".into()),
        lane.generation.to_string(),
        lease,
        seconds(lane.owner_seen_seconds),
        number(lane.n),
        lane.delivered_to.map_or("no position".to_owned(), |id| id.to_string()),
        lane.backlog.to_string(),
        seconds(lane.oldest_seconds),
    ]
}

/// Says what an initialisation did or would do.
///
/// # Errors
/// A dry run ends as [`Exit::Failed`], so that no script takes it for done.
pub fn print_init(wish: InitLanes, report: &InitReport, out: &mut Output<'_>) -> Result<(), CliError> {
    let (made, place) = if wish.dry_run { ("would be made", "would start") } else { ("was made", "starts") };
    for (lane, slots) in &report.made {
        out.line(format!("lane {lane} for slots {} to {} {made}", slots.start(), slots.end()))?;
    }
    for lane in &report.positioned {
        match wish.at {
            InitAt::Beginning => out.line(format!("lane {lane} {place} at the beginning of the log"))?,
            InitAt::AfterId(id) => {
                out.line(format!("lane {lane} {place} after id {id}; the newest is {}", report.newest_id))?
            }
        }
    }
    if wish.dry_run {
        return Err(CliError::new(Exit::Failed, "nothing was changed; add --yes to do it"));
    }
    Ok(())
}

/// Says what became of a release.
///
/// # Errors
/// Of the stream.
pub fn print_release(lane: LaneId, owner: Option<&str>, out: &mut Output<'_>) -> Result<(), CliError> {
    match owner {
        Some(owner) => out.line(format!("lane {lane} was freed; {owner} held it")),
        None => out.line(format!("lane {lane} is free already")),
    }
}

impl From<InitError> for CliError {
    fn from(error: InitError) -> Self {
        match error {
            InitError::Store(error) => error.into(),
            refused @ InitError::Refused { .. } => CliError::new(Exit::Failed, refused.to_string()),
        }
    }
}

impl From<ReleaseError> for CliError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Store(error) => error.into(),
            ReleaseError::Refused(text) => CliError::new(Exit::Failed, text),
        }
    }
}
