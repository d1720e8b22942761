-- What every connection checks: a primary that can be written, new enough, and the same backend with the same
-- session as the statement before (a transaction pooler may hand out another).
SELECT current_setting('server_version_num')::integer, pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean, pg_backend_pid(),
       current_setting('fencepost.probe', true)
