-- Where the next record of the write-ahead log goes, up to where the log is on disk, and the length of a
-- segment; as numbers. Asked after a snapshot, the first bounds every commit that the snapshot can see.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
       pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint,
       pg_size_bytes(current_setting('wal_segment_size'))
