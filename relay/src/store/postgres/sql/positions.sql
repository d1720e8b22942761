-- Lanes and where they stand: slots that are not in exactly one lane, lanes without a batch row, lanes whose
-- stored snapshots lie in the future (another cluster's, or a counter set back), the largest id that a
-- position names, and lanes with what this relay can't continue (an open broker transaction, a detour).
WITH newest AS MATERIALIZED (
  SELECT l.lane, b.n, b.pos_after AS p, b.pos_before AS q, b.open
    FROM "fencepost".lanes l
    LEFT JOIN LATERAL (SELECT * FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b ON true
)
SELECT (SELECT count(*) FROM generate_series(0, 255) AS s
         WHERE (SELECT count(*) FROM "fencepost".lanes l WHERE s BETWEEN l.first_slot AND l.last_slot) <> 1),
       (SELECT string_agg(lane::text, ', ' ORDER BY lane) FROM newest WHERE n IS NULL),
       (SELECT string_agg(lane::text, ', ' ORDER BY lane) FROM newest
         WHERE greatest(pg_snapshot_xmax((p).lo), pg_snapshot_xmax((p).up),
                        pg_snapshot_xmax((q).lo), pg_snapshot_xmax((q).up)) > pg_snapshot_xmax(pg_current_snapshot())),
       (SELECT coalesce(max(greatest((p).lo_seq0, (p).up_seq0, (p).up_seq1, (q).lo_seq0, (q).up_seq1)), 0) FROM newest),
       (SELECT string_agg(lane::text, ', ' ORDER BY lane) FROM newest
         WHERE open IS NOT NULL OR coalesce(cardinality((p).detours), 0) > 0)
