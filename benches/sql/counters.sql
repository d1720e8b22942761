-- The server's odometers: bytes of write-ahead log, transaction ids, and what others did in other
-- databases meanwhile (the first two are of the whole server). The insert position, since the written one
-- lags behind what the measured work has caused.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_xid,
       (SELECT coalesce(sum(xact_commit + xact_rollback), 0)::bigint FROM pg_stat_database
         WHERE datname <> current_database()) AS other_transactions;
