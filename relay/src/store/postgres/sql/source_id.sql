-- The outbox's own identity, for the fence header of its records. One row, by its primary key or alone.
SELECT source_id FROM "fencepost".origin
