-- enqueue: one message from any language, by named arguments, in the caller's transaction.
-- Runs as the owner, so that a caller needs no right on the table; the fixed search_path keeps the
-- caller's schemas out of it. Errors name the argument and the rule, never a value.
CREATE FUNCTION "fencepost".enqueue(
  topic text, type text, payload bytea, key bytea DEFAULT NULL, tenant text DEFAULT 'default',
  header_keys text[] DEFAULT NULL, header_values bytea[] DEFAULT NULL, partition integer DEFAULT NULL,
  content_type text DEFAULT NULL, event_time timestamptz DEFAULT NULL,
  OUT id bigint, INOUT message_id uuid DEFAULT NULL
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, "fencepost", pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  wrong text := CASE
    WHEN topic IS NULL OR octet_length(topic) NOT BETWEEN 1 AND 249 OR topic COLLATE "C" ~ '[^a-zA-Z0-9._-]|^[.]{1,2}$'
      THEN 'topic must be 1 to 249 characters of a-z, A-Z, 0-9, ".", "_" and "-", and neither "." nor ".."'
    WHEN type IS NULL OR octet_length(type) NOT BETWEEN 1 AND 255 THEN 'type must be 1 to 255 bytes'
    WHEN tenant IS NULL OR octet_length(tenant) NOT BETWEEN 1 AND 255 THEN 'tenant must be 1 to 255 bytes'
    WHEN octet_length(content_type) NOT BETWEEN 1 AND 255 THEN 'content_type must be 1 to 255 bytes, or null'
    WHEN partition < 0 THEN 'partition must be 0 or more, or null for the partitioner''s choice'
    WHEN event_time < '0001-01-01 00:00:00+00' OR event_time >= '10000-01-01 00:00:00+00'
      THEN 'event_time must be finite and in the years 1 to 9999'
    WHEN (header_keys IS NULL) <> (header_values IS NULL) OR cardinality(header_keys) <> cardinality(header_values)
      THEN 'header_keys and header_values must have the same length'
    WHEN cardinality(header_keys) > 128 THEN 'at most 128 headers are allowed'
    WHEN array_ndims(header_keys) > 1 OR array_ndims(header_values) > 1 THEN 'header_keys and header_values must have one dimension'
    WHEN array_position(header_keys, NULL) IS NOT NULL THEN 'a header name must not be null'
    WHEN array_to_string(header_keys, E'\n') COLLATE "C" ~ '(^|\n)(fencepost-|ce_|content-type(\n|$))'
      THEN 'header names "fencepost-...", "ce_..." and "content-type" belong to the relay'
  END;
BEGIN
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'enqueue refused the message: %', wrong USING ERRCODE = 'invalid_parameter_value';
  END IF;
  message_id := coalesce(message_id, "fencepost".uuid_v7());
  INSERT INTO "fencepost".outbox AS o
    (message_id, tenant, topic, type, key, partition, content_type, event_time, header_keys, header_values, payload)
  VALUES (message_id, tenant, topic, type, key, partition, content_type, event_time, header_keys, header_values, payload)
  RETURNING o.id INTO id;
END $$;

-- A function of the owner is for those who were granted it.
REVOKE ALL ON FUNCTION "fencepost".enqueue FROM PUBLIC;

UPDATE "fencepost".settings SET schema_version = 3;
