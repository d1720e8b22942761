-- No row: the message was applied before.
INSERT INTO ledger (message_id) VALUES ($1) ON CONFLICT DO NOTHING
