-- One transaction of the fill: the public columns only, the message ids from the producer.
INSERT INTO "fencepost".outbox (message_id, topic, key, type, payload)
SELECT m.id, $1, m.key, 'bench.filled', m.payload
  FROM unnest($2::uuid[], $3::bytea[], $4::bytea[]) AS m(id, key, payload);
