-- The effects. No key forbids a second bill of an order: the ledger must.
CREATE TABLE bills (
  order_id text   NOT NULL,
  customer text   NOT NULL,
  cents    bigint NOT NULL
)
