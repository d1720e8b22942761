-- The effect, in the transaction that also wrote the ledger's row.
INSERT INTO bills (order_id, customer, cents) VALUES ($1, $2, $3)
