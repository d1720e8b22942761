-- Writes a finding down, with ids of the window's rows as audit_count.sql finds them. First those that no page
-- can have read: a row up to lo.seq0 ($4) belongs to a transaction that ran at lo, or the rules of the log were broken. Then the newest.
-- The key makes a repeat after a lost reply harmless.
WITH w AS MATERIALIZED (SELECT $2::text::pg_snapshot AS lo, $3::text::pg_snapshot AS up),
rows AS (
  SELECT o.id, o.id <= $4::bigint AND o.xid >= pg_snapshot_xmax(w.lo) AS unreadable
    FROM w
   CROSS JOIN "fencepost".lanes l
   CROSS JOIN LATERAL (
     SELECT o.id, o.xid, o.slot FROM "fencepost".outbox o
      WHERE o.xid = ANY (ARRAY(SELECT x FROM pg_snapshot_xip(w.lo) AS x WHERE pg_visible_in_snapshot(x, w.up)))
     UNION ALL
     SELECT o.id, o.xid, o.slot FROM "fencepost".outbox o
      WHERE o.xid >= pg_snapshot_xmax(w.lo) AND o.xid < pg_snapshot_xmax(w.up) AND pg_visible_in_snapshot(o.xid, w.up)
   ) o
   WHERE l.lane = $1 AND o.slot BETWEEN l.first_slot AND l.last_slot
)
INSERT INTO "fencepost".audit_findings (lane, from_n, to_n, expected, found, ids, relay)
VALUES ($1, $5, $6, $7, $8, ARRAY(SELECT id FROM rows ORDER BY unreadable DESC, id DESC LIMIT $9), $10)
    ON CONFLICT (lane, to_n) DO NOTHING
RETURNING ids
