-- A transaction of one message, as a service sends it that gives the message id itself.
INSERT INTO "fencepost".outbox (message_id, topic, key, type, payload) VALUES ($1, $2, $3, 'bench.steady', $4);
