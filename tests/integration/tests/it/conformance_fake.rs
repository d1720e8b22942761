//! The store conformance suite on the database in memory that the model and the simulator run on: what they
//! show counts for PostgreSQL as far as both pass the same cases.

use std::time::Duration;

use fencepost_core::lane::LaneId;
use fencepost_integration::conformance::{Fixture, NewMessage, StoredBatch, Writer};
use fencepost_integration::conformance_tests;
use fencepost_sim::store::{FakeStore, FakeWriter, Message};

struct FakeFixture(FakeStore);

struct FakeTransaction(FakeWriter);

impl Fixture for FakeFixture {
    type Store = FakeStore;
    type Writer = FakeTransaction;

    async fn create(_case: &str) -> Self {
        FakeFixture(FakeStore::default())
    }

    fn store(&self) -> &FakeStore {
        &self.0
    }

    async fn begin(&self) -> FakeTransaction {
        FakeTransaction(self.0.begin())
    }

    async fn skip_ids(&mut self, next: i64) {
        self.0.with(|database| database.skip_ids(next));
    }

    async fn expire(&mut self, lane: LaneId) {
        self.0.with(|database| database.expire(lane));
    }

    async fn age_batches(&mut self, lane: LaneId, by: Duration) {
        self.0.with(|database| database.age_batches(lane, by));
    }

    async fn age_heartbeats(&mut self, by: Duration) {
        self.0.with(|database| database.age_heartbeats(by));
    }

    async fn pad_batches(&mut self, lane: LaneId, count: i64) {
        self.0.with(|database| database.pad_batches(lane, count));
    }

    async fn leave_open(&mut self, lane: LaneId) {
        self.0.with(|database| database.leave_open(lane));
    }

    async fn recount(&mut self, lane: LaneId, n: i64, messages: i64) {
        self.0.with(|database| database.recount(lane, n, messages));
    }

    async fn smuggle(&mut self, id: i64) -> i64 {
        self.0.with(|database| database.smuggle(id))
    }

    async fn close_findings(&mut self) {
        self.0.with(|database| database.close_findings());
    }

    async fn forget_batches(&mut self, lane: LaneId) {
        self.0.with(|database| database.forget_batches(lane));
    }

    async fn forget_lane(&mut self, lane: LaneId) {
        self.0.with(|database| database.forget_lane(lane));
    }

    async fn stored(&mut self, lane: LaneId) -> Vec<StoredBatch> {
        self.0.with(|database| {
            let rows = database.batches(lane).map(|(n, row)| StoredBatch {
                n,
                kind: row.kind.name().to_owned(),
                generation: row.generation.0,
                owner: row.owner.as_ref().map(|owner| owner.0.to_string()),
                carried: format!("{:?} {:?}", row.open, row.position),
                counts: (row.counts.0, row.counts.1, row.counts.2.as_millis() as i64),
            });
            rows.collect()
        })
    }
}

impl Writer for FakeTransaction {
    async fn touch(&mut self) {
        self.0.touch();
    }

    async fn enqueue(&mut self, message: &NewMessage) -> i64 {
        let NewMessage { tenant, topic, key, partition, kind, content_type, headers, payload, event_time_us } =
            message.clone();
        self.0.enqueue(Message { tenant, topic, key, partition, kind, content_type, headers, payload, event_time_us })
    }

    async fn commit(self) {
        self.0.commit();
    }

    async fn rollback(self) {
        drop(self.0);
    }
}

conformance_tests!(FakeFixture);
