-- Each lane's backlog beyond its newest position. At most $1 rows are looked at per lane and kind, so the
-- cost is bounded whatever the backlog. Stragglers come through the index on xid, fresh rows
-- through the primary key. If the look ends before the log does, the rest counts by its ids, and if no
-- row of the lane was in it, the age is that of the last row looked at: both upper bounds.
SELECT l.lane,
       late.rows + fresh.rows + CASE WHEN fresh.looked < $1 THEN 0 ELSE greatest(s.last_id - fresh.last_id, 0) END,
       (extract(epoch FROM clock_timestamp() - least(late.oldest, coalesce(fresh.oldest,
          CASE WHEN fresh.looked >= $1 THEN fresh.last_at END))) * 1000000)::bigint
  FROM "fencepost".lanes l
 CROSS JOIN LATERAL (SELECT (x.pos_after).lo AS lo, (x.pos_after).lo_seq0 AS seq0, (x.pos_after).cursor_id AS cursor_id
                       FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) p
 CROSS JOIN (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END AS last_id
               FROM "fencepost".outbox_id_seq) s
 CROSS JOIN LATERAL (
   SELECT count(*) AS rows, min(y.created_at) AS oldest
     FROM (SELECT o.created_at FROM "fencepost".outbox o
            WHERE o.xid = ANY (ARRAY(SELECT pg_snapshot_xip(p.lo))) AND o.id + 0 > p.cursor_id AND o.id + 0 <= p.seq0
              AND o.slot BETWEEN l.first_slot AND l.last_slot
            LIMIT $1) y) late
 CROSS JOIN LATERAL (
   SELECT count(*) AS looked, max(y.id) AS last_id, max(y.created_at) AS last_at,
          count(*) FILTER (WHERE y.mine) AS rows, min(y.created_at) FILTER (WHERE y.mine) AS oldest
     FROM (SELECT o.id, o.created_at, o.slot BETWEEN l.first_slot AND l.last_slot
                  AND NOT pg_visible_in_snapshot(o.xid, p.lo) AS mine
             FROM "fencepost".outbox o
            WHERE o.id > greatest(p.cursor_id, p.seq0)
            ORDER BY o.id
            LIMIT $1) y) fresh
 WHERE late.rows + fresh.rows > 0 OR fresh.looked >= $1
 ORDER BY l.lane
