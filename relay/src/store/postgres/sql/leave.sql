-- Removes this relay's heartbeat.
DELETE FROM "fencepost".relays WHERE owner = $1
