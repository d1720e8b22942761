-- The newest row of each asked lane, one probe of the primary key's end per lane.
SELECT b.lane, b.n, b.generation, b.tag,
       (b.pos_after).lo::text, (b.pos_after).lo_seq0, (b.pos_after).up::text, (b.pos_after).up_seq0,
       (b.pos_after).up_seq1, (b.pos_after).cursor_id,
       b.open IS NOT NULL OR coalesce(cardinality((b.pos_after).detours), 0) > 0
  FROM unnest($1::smallint[]) AS l (lane)
 CROSS JOIN LATERAL (SELECT * FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b
