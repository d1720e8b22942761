-- The relay's rights that this role lacks, and whether row level security would hide rows from it.
SELECT (SELECT string_agg(g.what, ', ' ORDER BY g.what)
          FROM (VALUES
            ('SELECT on outbox', has_table_privilege('"fencepost".outbox', 'SELECT')),
            ('SELECT on origin', has_table_privilege('"fencepost".origin', 'SELECT')),
            ('SELECT on outbox_id_seq', has_sequence_privilege('"fencepost".outbox_id_seq', 'SELECT')),
            ('SELECT on lanes', has_table_privilege('"fencepost".lanes', 'SELECT')),
            ('UPDATE of owner, generation and lease_expires_at on lanes',
               has_column_privilege('"fencepost".lanes', 'owner', 'UPDATE')
               AND has_column_privilege('"fencepost".lanes', 'generation', 'UPDATE')
               AND has_column_privilege('"fencepost".lanes', 'lease_expires_at', 'UPDATE')),
            ('SELECT on batches', has_table_privilege('"fencepost".batches', 'SELECT')),
            ('INSERT on batches', has_table_privilege('"fencepost".batches', 'INSERT')),
            ('DELETE on batches', has_table_privilege('"fencepost".batches', 'DELETE')),
            ('SELECT on relays', has_table_privilege('"fencepost".relays', 'SELECT')),
            ('INSERT on relays', has_table_privilege('"fencepost".relays', 'INSERT')),
            ('UPDATE on relays', has_table_privilege('"fencepost".relays', 'UPDATE')),
            ('DELETE on relays', has_table_privilege('"fencepost".relays', 'DELETE')),
            ('SELECT on audit_findings', has_table_privilege('"fencepost".audit_findings', 'SELECT')),
            ('INSERT on audit_findings', has_column_privilege('"fencepost".audit_findings', 'lane', 'INSERT'))) AS g (what, held)
         WHERE NOT g.held),
       (SELECT string_agg(c.relname::text, ', ' ORDER BY c.relname)
          FROM pg_class c
         WHERE c.oid IN ('"fencepost".outbox'::regclass, '"fencepost".origin'::regclass, '"fencepost".settings'::regclass,
                         '"fencepost".lanes'::regclass, '"fencepost".batches'::regclass, '"fencepost".relays'::regclass,
                         '"fencepost".audit_findings'::regclass)
           AND row_security_active(c.oid)),
       (SELECT r.rolname::text FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
         WHERE c.oid = '"fencepost".outbox'::regclass AND r.rolcanlogin)
