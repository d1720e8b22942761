-- Gives lanes a position: a row under the next number, so that a late mark of a former owner finds its number taken.
-- It is the window from the log's beginning to a tick ($2 to $4; all NULL: no window is open yet) with the cursor at $5:
-- rows up to $5 that the tick sees count as delivered. A position at "lo_seq0 = $5" would be shorter and wrong: readers rely on
-- every row up to lo_seq0 being seen by lo or listed in it.
INSERT INTO "fencepost".batches (lane, n, kind, generation, tag, eff, pos_after)
SELECT l.lane, coalesce(b.n + 1, 0), 'init', l.generation, gen_random_uuid(), b.eff,
       ROW('1:1:', 0, $2::text::pg_snapshot, $3::bigint, $4::bigint, $5::bigint, NULL)::"fencepost".position
  FROM "fencepost".lanes l
  LEFT JOIN LATERAL (SELECT x.n, x.eff FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b ON true
 WHERE l.lane = ANY ($1::smallint[])
