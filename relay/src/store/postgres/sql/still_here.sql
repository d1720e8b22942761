-- Whether another session of ours still runs. If so, the server has not restarted, crashed or been
-- replaced since that session began: a new connection may go on where the old one stood.
SELECT EXISTS (SELECT FROM pg_stat_activity
                WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2)
