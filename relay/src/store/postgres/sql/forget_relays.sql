-- Heartbeats of processes that are long gone; each start has a name of its own.
DELETE FROM "fencepost".relays WHERE seen_at < clock_timestamp() - interval '1 day'
