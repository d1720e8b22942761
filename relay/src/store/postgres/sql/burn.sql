-- Takes a transaction id and commits it: what ran before has an id below every later snapshot's xmax.
-- Such a commit writes no WAL, so nothing is flushed.
SELECT pg_current_xact_id() IS NOT NULL
