-- Our own list of applied migrations: an application's _sqlx_migrations in the same database stays its own.
CREATE TABLE "fencepost".schema_migrations (
  version    integer NOT NULL,
  name       text NOT NULL,
  checksum   text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
)
