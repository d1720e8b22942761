-- Gives unexpired leases of this owner under these generations back. The generation stays: it only grows.
UPDATE "fencepost".lanes l
   SET owner = NULL, lease_expires_at = NULL
  FROM unnest($2::smallint[], $3::bigint[]) AS r (lane, generation)
 WHERE l.lane = r.lane AND l.owner = $1 AND l.generation = r.generation AND l.lease_expires_at > clock_timestamp()
RETURNING l.lane
