-- The server's two odometers: bytes of write-ahead log, and transaction ids. The insert position, since
-- the written one lags behind what the measured work has caused.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid;
