-- Heartbeats, and what their owners hold.
SELECT r.owner,
       (extract(epoch FROM clock_timestamp() - r.started_at) * 1000)::bigint,
       (extract(epoch FROM clock_timestamp() - r.seen_at) * 1000)::bigint,
       (SELECT count(*) FROM "fencepost".lanes l WHERE l.owner = r.owner AND l.lease_expires_at > clock_timestamp())
  FROM "fencepost".relays r
 ORDER BY r.owner
