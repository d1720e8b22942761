-- In the same transaction as the migration itself: both or neither.
INSERT INTO fencepost_schema_migrations (version, name, checksum) VALUES (?1, ?2, ?3)
