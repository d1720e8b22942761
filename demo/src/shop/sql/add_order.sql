-- In the transaction that also enqueues the order's message.
INSERT INTO orders (id, customer, number, cents) VALUES ($1, $2, $3, $4)
