-- Sessions of this database besides the bench's own that are inside a statement or a transaction: a
-- process must not be frozen there.
SELECT count(*) AS busy FROM pg_stat_activity
 WHERE datname = current_database() AND application_name <> 'fencepost-bench' AND state <> 'idle';
