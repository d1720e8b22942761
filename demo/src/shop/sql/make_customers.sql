-- The aggregate whose row is locked before an order is written: the order of these locks is the order of a
-- customer's messages.
CREATE TABLE customers (
  id     text PRIMARY KEY,
  orders bigint NOT NULL DEFAULT 0
)
