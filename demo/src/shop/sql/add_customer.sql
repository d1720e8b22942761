-- Before the services begin.
INSERT INTO customers (id) VALUES ($1)
