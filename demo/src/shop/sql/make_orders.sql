-- The domain rows: one for each message that must reach the topic.
CREATE TABLE orders (
  id       text PRIMARY KEY,
  customer text NOT NULL REFERENCES customers (id),
  number   bigint NOT NULL,
  cents    bigint NOT NULL
)
