-- Relays that are alive by the database's clock. After that clock was set back, a live relay's next
-- heartbeat is back in range, and a dead one's last heartbeat in the future does not count.
SELECT owner
  FROM "fencepost".relays
 WHERE seen_at BETWEEN clock_timestamp() - $1::bigint * interval '1 microsecond'
                   AND clock_timestamp() + $1::bigint * interval '1 microsecond'
 ORDER BY owner
