-- Deletes old batch rows in key order, at most $3. Kept: the newest $2 of each lane, rows younger
-- than ten leases ($1: a mark that stalls must still meet its rival's row), and the row whose number
-- the broker may hold (eff, open). A second relay that prunes at once waits for the first and finds nothing left.
DELETE FROM "fencepost".batches d
 USING (SELECT o.lane, o.n
          FROM (SELECT l.lane, b.n, b.eff, b.open
                  FROM "fencepost".lanes l
                 CROSS JOIN LATERAL (SELECT x.n, x.eff, x.open FROM "fencepost".batches x
                                      WHERE x.lane = l.lane ORDER BY x.n DESC LIMIT 1) b) newest
         CROSS JOIN LATERAL (SELECT x.lane, x.n FROM "fencepost".batches x
                              WHERE x.lane = newest.lane AND x.n <= newest.n - $2
                                AND x.written_at < clock_timestamp() - $1::bigint * interval '10 microseconds'
                                AND x.n IS DISTINCT FROM newest.eff AND x.n IS DISTINCT FROM newest.open
                              ORDER BY x.n LIMIT $3) o
         LIMIT $3) old
 WHERE d.lane = old.lane AND d.n = old.n
