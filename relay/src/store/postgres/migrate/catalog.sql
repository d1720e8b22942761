-- What the catalog holds of this program's objects, a line each, without the schema's name: the caller
-- has set search_path to pg_catalog and the schema, so that the server prints bare names. Only
-- tables and types of these names and what hangs on them: the schema may hold an application's tables too. Owners,
-- grants and storage options are not part of it; not-null is told by the column (18 lists it as a constraint as well).
WITH names(name) AS (VALUES ('outbox'), ('origin'), ('settings'), ('lanes'), ('batches'), ('relays'),
                            ('schema_migrations'), ('outbox_id_seq'), ('position'), ('detour'), ('audit_findings')),
schema AS (SELECT oid, quote_ident(nspname) AS quoted, nspname FROM pg_namespace WHERE nspname = $1),
rel AS (
  SELECT c.oid, c.relname AS rel_name, c.relkind AS rel_kind, c.relpersistence AS persistence
    FROM pg_class c JOIN schema s ON c.relnamespace = s.oid JOIN names ON c.relname = names.name
   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c')
)
SELECT format('relation %s %s %s', rel_name, rel_kind, persistence) COLLATE "C" AS line FROM rel
UNION ALL
SELECT format('column %s.%s %s%s%s%s', rel_name, attname, format_type(atttypid, atttypmod),
              CASE WHEN attnotnull THEN ' not null' END, CASE attgenerated WHEN 's' THEN ' stored' WHEN 'v' THEN ' virtual' END,
              ' ' || regexp_replace(pg_get_expr(adbin, adrelid), '\s+', ' ', 'g'))
  FROM rel JOIN pg_attribute a ON attrelid = rel.oid LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum
 WHERE attnum > 0 AND NOT attisdropped AND rel_kind <> 'S'
UNION ALL
SELECT format('constraint %s.%s %s', rel_name, conname, regexp_replace(pg_get_constraintdef(k.oid), '\s+', ' ', 'g'))
  FROM rel JOIN pg_constraint k ON conrelid = rel.oid WHERE contype <> 'n'
UNION ALL
SELECT format('index %s %s', rel_name, regexp_replace(pg_get_indexdef(indexrelid), ' ON .*? USING ', ' USING '))
       || CASE WHEN indisvalid THEN '' ELSE ' invalid' END
  FROM rel JOIN pg_index ON indrelid = rel.oid
UNION ALL
SELECT format('trigger %s %s', rel_name, tgname) FROM rel JOIN pg_trigger ON tgrelid = rel.oid WHERE NOT tgisinternal
UNION ALL
SELECT format('rule %s %s', rel_name, rulename) FROM rel JOIN pg_rewrite ON ev_class = rel.oid
UNION ALL
SELECT format('row security %s', rel_name) FROM rel JOIN pg_class c ON c.oid = rel.oid WHERE c.relrowsecurity
UNION ALL
SELECT format('sequence %s %s start %s increment %s min %s max %s cache %s%s', rel_name, format_type(seqtypid, NULL),
              seqstart, seqincrement, seqmin, seqmax, seqcache, CASE WHEN seqcycle THEN ' cycle' END)
  FROM rel JOIN pg_sequence ON seqrelid = rel.oid
UNION ALL
SELECT format('function %s(%s) %s%s %s %s', proname, pg_get_function_arguments(p.oid), provolatile,
              CASE WHEN prosecdef THEN ' security definer' END,
              replace(array_to_string(proconfig, ' '), ' ' || s.quoted || ',', ' schema,'),
              md5(replace(prosrc, '"' || replace(s.nspname, '"', '""') || '"', 'schema')))
  FROM pg_proc p JOIN schema s ON p.pronamespace = s.oid WHERE proname IN ('uuid_v7', 'enqueue')
ORDER BY 1
