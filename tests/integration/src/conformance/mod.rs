//! The suite that every store must pass, whatever is behind it: the contract of the relay's store port in
//! executable form. A backend gives a [`Fixture`] and runs all cases by [`conformance_tests!`]; nothing in
//! here knows a backend. What a backend can't do it must say in its fixture, never skip here.

pub mod audit;
mod fixture;
pub mod housekeeping;
pub mod leases;
pub mod marks;
pub mod pages;
pub mod postgres;
mod walk;

pub use fixture::{Fixture, Headers, NewMessage, StoredBatch, Writer};
pub use walk::{Read, Walk, tick};

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::batch::{BatchHead, MarkRow};
use fencepost_core::lane::{LaneId, Owner};
use fencepost_core::position::Position;
use fencepost_relay::store::{LaneKeeper, Store, StoreError};

/// Lease of the suite: longer than any case.
pub const LEASE: Duration = Duration::from_secs(60);

/// An owner by name.
pub fn owner(name: &str) -> Owner {
    Owner(Arc::from(name))
}

/// Claims a lane that must be claimable.
///
/// # Panics
/// When it is not.
pub async fn claim<K: LaneKeeper>(keeper: &mut K, owner: &Owner, lane: i16) -> BatchHead {
    let claimed = keeper.claim(owner, LaneId(lane), None, LEASE).await.expect("a claim");
    claimed.unwrap_or_else(|| panic!("lane {lane} can be claimed"))
}

/// The mark that follows `head` and moves its lane to `position`.
pub fn next_mark(head: &BatchHead, position: Position) -> MarkRow {
    MarkRow {
        lane: head.lane,
        n: head.n + 1,
        generation: head.generation,
        position,
        messages: 3,
        bytes: 300,
        took: Duration::from_millis(7),
    }
}

/// The repair of an unfit source.
///
/// # Panics
/// When the result is anything else.
pub fn repair<T>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Unfit { repair, .. }) => repair,
        Err(other) => panic!("unfit was expected, not: {other}"),
        Ok(_) => panic!("unfit was expected"),
    }
}

/// All three connections of a store.
///
/// # Panics
/// When the store refuses one.
pub async fn connect<S: Store>(store: &S) -> (S::Reader, S::Marker, S::Keeper) {
    let reader = store.reader().await.expect("a reader");
    (reader, store.marker().await.expect("a marker"), store.keeper().await.expect("a keeper"))
}

/// One `#[tokio::test]` per case of the suite, for the fixture type that is named.
#[macro_export]
macro_rules! conformance_tests {
    ($fixture:ty) => {
        $crate::conformance_tests!($fixture, pages:
            a_fresh_log_has_no_id, committed_messages_come_once_and_in_order, a_message_arrives_byte_for_byte,
            b01_a_straggler_comes_after_its_commit, a_bulk_straggler_is_paged, an_early_transaction_that_writes_late,
            the_window_ends_at_its_tick, pages_end_at_their_limit, a_taker_may_break_before_any_row,
            b133_large_rows_behind_a_break, b149_a_page_that_is_dropped_midway, only_the_asked_slots,
            b128_ids_beyond_32_and_53_bits, random_schedules_are_complete);
        $crate::conformance_tests!($fixture, marks:
            a_mark_moves_its_lane, only_the_owner_marks_its_lanes, a_gap_and_a_taken_number_are_refused,
            an_open_row_is_never_marked_over, each_lane_is_judged_by_itself, b50_a_lost_reply_is_settled_by_the_tag,
            b27_a_stale_mark_changes_nothing);
        $crate::conformance_tests!($fixture, leases:
            a_claim_writes_a_fence_row, a_fence_row_copies_what_is_open, b18_a_race_for_a_lane_has_one_winner,
            only_free_or_expired_lanes_are_claimed, b45_silence_claims_by_the_seen_pair,
            b27_b36_only_unexpired_own_leases_are_renewed_and_released, b25_a_lost_claim_reply_can_be_found_out,
            generations_only_grow, relays_are_alive_by_their_heartbeat);
        $crate::conformance_tests!($fixture, housekeeping:
            b12_missing_positions_are_never_made_up, missing_lanes_are_refused, an_open_row_is_not_continued,
            old_batches_are_pruned, lag_counts_what_waits, b161_lag_of_an_unserved_lane);
        $crate::conformance_tests!($fixture, audit:
            what_was_delivered_is_what_the_log_holds, a_straggler_is_counted_where_it_was_delivered,
            a_message_that_was_passed_over_is_found, a_wrong_count_is_found, a_finding_is_told_once,
            too_much_is_not_counted, nothing_is_counted_across_an_open_row);
    };
    ($fixture:ty, $group:ident: $($case:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $case() {
            let mut fixture = <$fixture as $crate::conformance::Fixture>::create(stringify!($case)).await;
            $crate::conformance::$group::$case(&mut fixture).await;
        })+
    };
}
