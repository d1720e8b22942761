-- Frees a lane if it is still held as it was seen: a claim in between has another generation. The generation
-- stays, the next claim raises it; until then a late mark of the former owner finds no lease.
UPDATE "fencepost".lanes l
   SET owner = NULL, lease_expires_at = NULL
 WHERE l.lane = $1 AND l.owner = $2 AND l.generation = $3
