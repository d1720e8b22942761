-- One message; several repeat the list in parentheses. The id is AUTOINCREMENT's, and the rows of a statement get
-- consecutive ones in their order: nobody else writes meanwhile.
INSERT INTO fencepost_outbox
  (message_id, tenant, topic, type, key, partition, content_type, event_time, payload, header_keys, header_values)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
