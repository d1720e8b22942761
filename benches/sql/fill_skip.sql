-- One transaction of the fill of the baseline's table.
INSERT INTO skip_outbox (topic, key, payload)
SELECT $1, m.key, m.payload FROM unnest($2::text[], $3::bytea[]) AS m(key, payload);
