-- Takes a lane and writes its fence row, in one autocommit statement: a process that freezes between two
-- statements would leave the row locked. The update re-reads the row after waiting for a rival, so of two
-- claims one finds the lane taken. The fence row copies the newest one verbatim under n+1; if the former
-- owner's mark took n+1 meanwhile, the key is violated and nothing is claimed. Without any batch
-- row there is nothing to fence, so the lane is left alone. The generation also grows by the
-- timeline: a failover that lost the last claims can't hand their numbers out again.
WITH taken AS (
  UPDATE "fencepost".lanes l
     SET owner = $1,
         generation = greatest(l.generation + 1,
           ((('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint & 4294967295) - 1) << 32),
         lease_expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
   WHERE l.lane = $2
     AND CASE WHEN $4::bigint IS NULL THEN l.owner IS NULL OR l.lease_expires_at <= clock_timestamp()
              ELSE l.generation = $4::bigint AND (extract(epoch FROM l.lease_expires_at) * 1000000)::bigint = $5::bigint END
     AND EXISTS (SELECT FROM "fencepost".batches b WHERE b.lane = $2)
  RETURNING l.lane, l.generation, l.owner
)
INSERT INTO "fencepost".batches AS f
       (lane, n, kind, generation, owner, tag, eff, open, open_tag, pos_before, pos_after, intent)
SELECT t.lane, b.n + 1, 'fence', t.generation, t.owner, gen_random_uuid(), b.eff, b.open, b.open_tag, b.pos_before,
       b.pos_after, b.intent
  FROM taken t
 CROSS JOIN LATERAL (SELECT * FROM "fencepost".batches x WHERE x.lane = t.lane ORDER BY x.n DESC LIMIT 1) b
RETURNING f.lane, f.n, f.generation, f.tag,
          (f.pos_after).lo::text, (f.pos_after).lo_seq0, (f.pos_after).up::text, (f.pos_after).up_seq0,
          (f.pos_after).up_seq1, (f.pos_after).cursor_id,
          f.open IS NOT NULL OR coalesce(cardinality((f.pos_after).detours), 0) > 0
