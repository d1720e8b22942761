-- Our own list of applied migrations: an application's _sqlx_migrations in the same file stays its own.
CREATE TABLE fencepost_schema_migrations (
  version    INTEGER NOT NULL PRIMARY KEY,
  name       TEXT NOT NULL,
  checksum   TEXT NOT NULL,
  applied_at INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
) STRICT
