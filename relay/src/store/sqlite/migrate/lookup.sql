-- Whether the list of migrations is there: it comes with the first one.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'fencepost_schema_migrations')
