-- Which messages were applied: what makes a repeat harmless.
CREATE TABLE ledger (
  message_id text PRIMARY KEY
)
