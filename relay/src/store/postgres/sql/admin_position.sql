-- Gives lanes a position: a row under the next number, so that a late mark of a former owner finds its number taken. The
-- snapshot sees nothing, so rows above $2 are read whenever their transaction commits, and rows up to $2 never.
INSERT INTO "fencepost".batches (lane, n, kind, generation, tag, eff, pos_after)
SELECT l.lane, coalesce(b.n + 1, 0), 'init', l.generation, gen_random_uuid(), b.eff,
       ROW('1:1:', $2::bigint, NULL, NULL, NULL, 0, NULL)::"fencepost".position
  FROM "fencepost".lanes l
  LEFT JOIN LATERAL (SELECT x.n, x.eff FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b ON true
 WHERE l.lane = ANY ($1::smallint[])
