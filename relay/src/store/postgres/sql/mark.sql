-- Fence and compare-and-set in one statement: a row is written only where the lane's lease is the
-- caller's and unexpired, row n-1 is the newest and has nothing open, and n is free. A statement that
-- stalls after its lease check and lands late meets the fence row of its successor's claim under the
-- same key (lane, n), waits for it if it is being written, and writes nothing. A concurrent prune can't
-- free n: it keeps rows for ten leases, and a statement ends within one.
INSERT INTO "fencepost".batches
       (lane, n, kind, generation, owner, tag, eff, pos_after, messages, bytes, took_ms)
SELECT d.lane, d.n, 'mark', l.generation, l.owner, $2::uuid, p.eff,
       ROW(d.lo::pg_snapshot, d.lo_seq0, d.up::pg_snapshot, d.up_seq0, d.up_seq1, d.cursor_id, NULL)::"fencepost".position,
       d.messages, d.bytes, d.took_ms
  FROM unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
              $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::integer[])
       AS d (lane, n, generation, lo, lo_seq0, up, up_seq0, up_seq1, cursor_id, messages, bytes, took_ms)
  JOIN "fencepost".lanes l
    ON l.lane = d.lane AND l.owner = $1 AND l.generation = d.generation AND l.lease_expires_at > clock_timestamp()
  JOIN LATERAL (SELECT x.n, x.eff, x.open FROM "fencepost".batches x WHERE x.lane = d.lane ORDER BY x.n DESC LIMIT 1) p
    ON p.n = d.n - 1 AND p.open IS NULL
    ON CONFLICT (lane, n) DO NOTHING
RETURNING lane
