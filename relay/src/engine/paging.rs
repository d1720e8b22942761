//! One page from the database to the publisher: rows go straight from the connection's buffer to `send`.

use std::ops::ControlFlow;
use std::time::Duration;

use fencepost_core::failure::{Class, Outcome, Persistence};
use fencepost_core::header;
use fencepost_core::lane::{Generation, LaneId, Slots};
use fencepost_core::limits::SLOTS;
use fencepost_core::page::{PageEnd, PageStop, Span};
use fencepost_core::worker::{LaneCount, PageReport, PageRequest, RefusedRow, RowFailure, SettledPage};

use tracing::Level;

use super::within;
use crate::clock::Clock;
use crate::message::MessageRef;
use crate::publisher::{PageSlot, Publisher, Refused};
use crate::store::{LogReader, StoreError};

/// Longest wait for the publisher at the end of a page. A full client is asked again even if it never said
/// that it has room: a single message may be larger than all of its queue. An unknown topic is asked for
/// again: the lookup goes on meanwhile. A wait as long as a lease would pass for a reader that hangs, and
/// cost every lane.
const PUBLISHER_WAIT: Duration = Duration::from_millis(250);

/// What was taken from a page.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// For the worker.
    pub(super) report: Option<PageReport>,
    /// Rows that were handed over, in order: row numbers of the publisher's slot.
    pub(super) rows: Vec<(LaneId, i64)>,
    /// Rows that are acknowledged already and were only counted.
    pub(super) skipped: Vec<(LaneId, i64)>,
    /// When the oldest of them was written, microseconds since the Unix epoch.
    pub(super) oldest_us: Option<i64>,
    /// By row number: spans of messages whose producer sent a trace context, while they are asked for.
    pub(super) spans: Vec<(usize, tracing::Span)>,
}

/// The state of a page while its rows come in. It outlives a lost session, so that what was handed over
/// before the loss is accounted for.
pub(super) struct Paging {
    pub(super) request: PageRequest,
    /// Lane of each slot, as an index into `lanes`.
    lane_of: [u8; SLOTS],
    lanes: Vec<PagedLane>,
    bytes_max: u64,
    bytes: u64,
    rows: Vec<(LaneId, i64)>,
    skipped: Vec<(LaneId, i64)>,
    last_id: i64,
    oldest_us: Option<i64>,
    traced: bool,
    spans: Vec<(usize, tracing::Span)>,
    stop: Option<Cut>,
}

struct PagedLane {
    lane: LaneId,
    fence: String,
    count: LaneCount,
}

/// Why the page was cut before a row.
enum Cut {
    /// The page is large enough, or the lease is no longer trusted.
    Enough,
    Full,
    Halted,
    Route {
        topic: String,
        lane: LaneId,
        id: i64,
    },
    Refused(RefusedRow),
}

impl Paging {
    pub(super) fn new(request: PageRequest, source_id: &str, bytes_max: u64) -> Self {
        let mut lane_of = [u8::MAX; SLOTS];
        let mut lanes = Vec::with_capacity(request.lanes.len());
        for (index, (lane, slots, generation)) in request.lanes.iter().enumerate() {
            for slot in slots.clone() {
                lane_of[usize::from(slot)] = index as u8;
            }
            let fence = fence(source_id, *lane, *generation);
            lanes.push(PagedLane { lane: *lane, fence, count: LaneCount::default() });
        }
        let rows = Vec::with_capacity(request.plan.rows_max as usize);
        Paging {
            request,
            lane_of,
            lanes,
            bytes_max,
            bytes: 0,
            rows,
            skipped: Vec::new(),
            last_id: 0,
            oldest_us: None,
            traced: tracing::enabled!(Level::DEBUG),
            spans: Vec::new(),
            stop: None,
        }
    }

    /// Reads the page and hands its rows over.
    pub(super) async fn run<R: LogReader, P: Publisher>(
        &mut self,
        reader: &mut R,
        publisher: &P,
        clock: Clock,
    ) -> Result<(PageEnd, Option<i64>), StoreError> {
        let plan = self.request.plan.clone();
        let slots: Vec<Slots> = self.request.lanes.iter().map(|(_, slots, _)| slots.clone()).collect();
        publisher.open(self.request.slot);
        let end = reader.read_page(&plan, &slots, &mut |message| self.take(message, publisher, clock)).await?;
        let mut next_id = None;
        if let (Span::Range { upto, .. }, PageStop::Exhausted, 0) = (&plan.span, end.stop, end.rows)
            && *upto < plan.up.seq1
        {
            next_id = Some(reader.next_id(*upto, plan.up.seq1).await?.unwrap_or(i64::MAX));
        }
        self.settle_cut(publisher).await;
        Ok((end, next_id))
    }

    fn take<P: Publisher>(&mut self, message: &MessageRef<'_>, publisher: &P, clock: Clock) -> ControlFlow<()> {
        let Some(lane) = self.lanes.get_mut(usize::from(self.lane_of[usize::from(message.slot)])) else {
            return ControlFlow::Continue(()); // not asked for
        };
        let size = message.size_bytes() as u64;
        let skip = !self.request.skip.is_empty() && self.request.skip.contains(&message.id);
        if !skip {
            let enough = self.bytes > 0 && self.bytes + size > self.bytes_max;
            if enough || clock.now() >= self.request.trusted_until {
                return self.cut(Cut::Enough);
            }
            let row = self.rows.len() as u32;
            if let Err(refused) = publisher.send(self.request.slot, row, &lane.fence, message) {
                let lane = lane.lane;
                return self.refused(refused, lane, message);
            }
            if self.traced && !message.headers.is_empty() {
                self.spans.extend(message_span(message, lane.lane).map(|span| (self.rows.len(), span)));
            }
            self.bytes += size;
            self.rows.push((lane.lane, message.id));
            self.oldest_us = Some(self.oldest_us.map_or(message.created_at_us, |us| us.min(message.created_at_us)));
        } else {
            self.skipped.push((lane.lane, message.id));
        }
        lane.count.messages += 1;
        lane.count.bytes += size as i64;
        self.last_id = message.id;
        ControlFlow::Continue(())
    }

    fn cut(&mut self, cut: Cut) -> ControlFlow<()> {
        self.stop = Some(cut);
        ControlFlow::Break(())
    }

    fn refused(&mut self, refused: Refused, lane: LaneId, message: &MessageRef<'_>) -> ControlFlow<()> {
        let id = message.id;
        self.cut(match refused {
            Refused::Full => Cut::Full,
            Refused::Halted => Cut::Halted,
            Refused::RouteUnknown => Cut::Route { topic: message.topic.to_owned(), lane, id },
            Refused::Failed { class, code } => Cut::Refused(refused_row(lane, id, class, code)),
        })
    }

    /// With the page's statement closed: waits for room, or looks the unknown topic up.
    async fn settle_cut<P: Publisher>(&mut self, publisher: &P) {
        match &self.stop {
            Some(Cut::Full) => {
                within(PUBLISHER_WAIT, publisher.room()).await;
            }
            Some(Cut::Route { topic, lane, id }) => {
                let (lane, id) = (*lane, *id);
                self.stop = Some(match within(PUBLISHER_WAIT, publisher.check_route(topic)).await {
                    None | Some(Ok(())) => Cut::Enough,
                    Some(Err((class, code))) => {
                        let class_name = class.name();
                        tracing::warn!(
                            topic,
                            lane = lane.0,
                            id,
                            class = class_name,
                            code,
                            "topic can't be written now"
                        );
                        Cut::Refused(refused_row(lane, id, class, code))
                    }
                });
            }
            _ => {}
        }
    }

    /// Ends the page. Without an end from the database (the session was lost, or the statement refused) it
    /// counts as cut behind the last row that was taken.
    pub(super) fn finish(self, end: Option<(PageEnd, Option<i64>)>) -> Taken {
        let rows = (self.rows.len() + self.skipped.len()) as u32;
        let lost = PageEnd { rows, last_id: self.last_id, stop: PageStop::Cut };
        let (mut end, next_id) = end.unwrap_or((lost, None));
        // Rows of slots that were not asked for are none of ours, whatever the store counts.
        (end.rows, end.last_id) = (rows, if rows > 0 { self.last_id } else { end.last_id });
        let counts = self.lanes.iter().filter(|lane| lane.count.messages > 0).map(|lane| (lane.lane, lane.count));
        let report = PageReport {
            end,
            sent: self.rows.len() as u32,
            counts: counts.collect(),
            skipped: self.skipped.iter().map(|(_, id)| *id).collect(),
            halted: matches!(self.stop, Some(Cut::Halted)),
            refused: match self.stop {
                Some(Cut::Refused(row)) => Some(row),
                _ => None,
            },
            next_id,
        };
        Taken {
            report: Some(report),
            rows: self.rows,
            skipped: self.skipped,
            oldest_us: self.oldest_us,
            spans: self.spans,
        }
    }
}

fn refused_row(lane: LaneId, id: i64, class: Class, code: i16) -> RefusedRow {
    RefusedRow { lane, id, outcome: Outcome::Failed { class, persistence: Persistence::Not, code } }
}

/// From the page to the outcome, under the producer's own trace context.
fn message_span(message: &MessageRef<'_>, lane: LaneId) -> Option<tracing::Span> {
    let (_, value) = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header::TRACEPARENT))?;
    let traceparent = std::str::from_utf8((*value)?).ok().filter(|text| is_traceparent(text))?;
    Some(tracing::debug_span!("message", traceparent, message_id = %message.message_id, id = message.id, lane = lane.0))
}

/// W3C trace context, version 00: only hexadecimal digits and hyphens reach a log.
fn is_traceparent(text: &str) -> bool {
    text.len() == 55 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Value of the fence header.
fn fence(source_id: &str, lane: LaneId, generation: Generation) -> String {
    format!("{source_id}/{lane}/{generation}")
}

impl Taken {
    /// The outcomes of the page's rows, as the worker wants them.
    pub(super) fn settle(self, slot: PageSlot, outcomes: Option<Vec<Outcome>>) -> SettledPage {
        let Taken { rows, skipped, .. } = self;
        let Some(outcomes) = outcomes else {
            let mut acked = rows;
            acked.extend(skipped);
            return SettledPage { slot, failures: Vec::new(), acked };
        };
        let (mut failures, mut acked) = (Vec::new(), skipped);
        for ((lane, id), outcome) in rows.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Acked => acked.push((lane, id)),
                Outcome::Failed { .. } => failures.push(RowFailure { lane, id, outcome }),
            }
        }
        acked.sort_unstable_by_key(|(_, id)| *id);
        SettledPage { slot, failures, acked }
    }
}
