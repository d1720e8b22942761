-- What the verdict calls committed.
SELECT count(*) FROM orders
