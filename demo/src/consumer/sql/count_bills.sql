-- What the verdict calls effects, and for how many orders.
SELECT count(*), count(DISTINCT order_id) FROM bills
