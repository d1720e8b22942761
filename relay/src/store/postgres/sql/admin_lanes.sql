-- How each lane stands: its lease by the database's clock, its owner's heartbeat, and its newest batch row through
-- one probe of the primary key's end.
SELECT l.lane, l.first_slot, l.last_slot, l.owner, l.generation,
       (extract(epoch FROM l.lease_expires_at - clock_timestamp()) * 1000)::bigint,
       (extract(epoch FROM clock_timestamp() - r.seen_at) * 1000)::bigint,
       b.n, greatest((b.pos_after).lo_seq0, (b.pos_after).cursor_id), (b.pos_after).up_seq1, b.open IS NOT NULL
  FROM "fencepost".lanes l
  LEFT JOIN "fencepost".relays r ON r.owner = l.owner
  LEFT JOIN LATERAL (SELECT * FROM "fencepost".batches x WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b ON true
 ORDER BY l.lane
