-- A heartbeat: an insert once, then heap-only updates.
INSERT INTO "fencepost".relays AS r (owner) VALUES ($1)
    ON CONFLICT (owner) DO UPDATE SET seen_at = clock_timestamp()
