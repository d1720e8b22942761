-- Whether the schema has a relay's tables at all. Needs no right on them.
SELECT to_regclass('"fencepost".settings') IS NOT NULL AND to_regclass('"fencepost".outbox') IS NOT NULL
   AND to_regclass('"fencepost".lanes') IS NOT NULL AND to_regclass('"fencepost".batches') IS NOT NULL
   AND to_regclass('"fencepost".origin') IS NOT NULL AND to_regclass('"fencepost".relays') IS NOT NULL
   AND to_regclass('"fencepost".outbox_id_seq') IS NOT NULL
