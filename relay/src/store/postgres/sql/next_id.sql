-- The next row above a gap, by the primary key: a sequence may jump by 2^53.
SELECT id FROM "fencepost".outbox WHERE id > $1 AND id <= $2 ORDER BY id LIMIT 1
