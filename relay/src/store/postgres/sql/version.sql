-- The newest migration that a relay must know.
SELECT schema_version FROM "fencepost".settings
