-- One migrator per schema at a time. Bound to the transaction: a pooler can't keep it, a dead client
-- releases it. Waits as long as lock_timeout allows.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('fencepost migrate ' || $1, 0))
