-- Makes a lane that was lost. A generation only grows, for stale relays and for consumers that refuse older ones: so
-- it goes on from the lane's batch rows, and where these are lost too, from the timeline and the seconds since the epoch,
-- which no count of claims has reached.
INSERT INTO "fencepost".lanes (lane, first_slot, last_slot, generation)
SELECT $1, $2, $3,
       coalesce((SELECT max(b.generation) FROM "fencepost".batches b WHERE b.lane = $1),
         (((('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint & 4294967295) - 1) << 32)
         + extract(epoch FROM clock_timestamp())::bigint)
