-- What a reader of the figures must know of the server: its version, what a commit waits for, how much
-- it may keep in memory, and whether others use it meanwhile (their work would count as ours).
SELECT current_setting('server_version') AS version,
       current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('shared_buffers') AS shared_buffers,
       current_setting('max_wal_size') AS max_wal_size,
       current_setting('full_page_writes') AS full_page_writes,
       (SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) AS other_sessions;
