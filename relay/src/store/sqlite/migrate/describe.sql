-- What hangs on this program's tables, a line each: SQLite keeps the text that made it. Tables of the application that
-- only begin with the same word are not looked at.
SELECT rtrim(type || ' ' || name || ' ' || coalesce(sql, ''), char(10) || ' ')
  FROM sqlite_schema
 WHERE tbl_name IN ('fencepost_outbox', 'fencepost_origin', 'fencepost_settings', 'fencepost_lanes', 'fencepost_batches',
                    'fencepost_relays', 'fencepost_schema_migrations')
 ORDER BY 1
