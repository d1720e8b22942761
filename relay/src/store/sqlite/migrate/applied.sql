-- Which migrations were applied, oldest first.
SELECT version, name, checksum, applied_at FROM fencepost_schema_migrations ORDER BY version
