-- Counts what lies between two snapshots by transaction id, which is not how pages are read: rows of
-- transactions that ran at $2 and have ended by $3, and rows of later ones that have ended by $3. The ids between are
-- walked in stretches around those that ran at $3: a bulk transaction that is open by now is never touched. At most
-- $4 rows of each kind are looked at, whatever their slot; more make the answer worthless, and the caller drops it.
WITH w AS MATERIALIZED (SELECT $2::text::pg_snapshot AS lo, $3::text::pg_snapshot AS up),
ran AS MATERIALIZED (
  SELECT ARRAY(SELECT x FROM w, pg_snapshot_xip(w.lo) AS x WHERE pg_visible_in_snapshot(x, w.up)) AS before,
         ARRAY(SELECT x FROM w, pg_snapshot_xip(w.up) AS x WHERE x >= pg_snapshot_xmax(w.lo) ORDER BY x) AS now,
         ARRAY(SELECT (x::text::bigint + 1)::text::xid8 FROM w, pg_snapshot_xip(w.up) AS x
                WHERE x >= pg_snapshot_xmax(w.lo) ORDER BY x) AS behind
)
SELECT count(*), count(*) FILTER (WHERE y.slot BETWEEN l.first_slot AND l.last_slot)
  FROM "fencepost".lanes l
  LEFT JOIN LATERAL (
    (SELECT o.slot FROM "fencepost".outbox o WHERE o.xid = ANY ((SELECT ran.before FROM ran)::xid8[]) LIMIT $4)
    UNION ALL
    (SELECT z.slot
       FROM w CROSS JOIN ran
      CROSS JOIN LATERAL unnest(pg_snapshot_xmax(w.lo) || ran.behind, ran.now || pg_snapshot_xmax(w.up)) AS s (first, past)
      CROSS JOIN LATERAL (SELECT o.slot FROM "fencepost".outbox o WHERE o.xid >= s.first AND o.xid < s.past LIMIT $4) z
      LIMIT $4)
  ) y ON true
 WHERE l.lane = $1
