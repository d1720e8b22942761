-- Extends unexpired leases of this owner under these generations. No index covers a changed column and
-- the pages have room: heap-only updates.
UPDATE "fencepost".lanes l
   SET lease_expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'
  FROM unnest($2::smallint[], $3::bigint[]) AS r (lane, generation)
 WHERE l.lane = r.lane AND l.owner = $1 AND l.generation = r.generation AND l.lease_expires_at > clock_timestamp()
RETURNING l.lane
