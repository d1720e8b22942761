-- Locks the customer until the transaction ends, and numbers the order within it.
UPDATE customers SET orders = orders + 1 WHERE id = $1 RETURNING orders
