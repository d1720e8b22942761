-- The baseline's table, tuned as a team that watches its vacuum would tune it: dead rows of a queue
-- are removed early and without throttling, or the claim walks over them.
DROP TABLE IF EXISTS skip_outbox;
CREATE TABLE skip_outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic      text NOT NULL,
  key        text NOT NULL,
  payload    bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
) WITH (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
