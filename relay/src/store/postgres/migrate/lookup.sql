-- What is there, without a right on anything: the schema, the list of migrations, and the role that owns the schema
-- if the session may act as it (else NULL). $1 is the bare schema name.
SELECT n.oid IS NOT NULL AS has_schema,
       EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'schema_migrations') AS has_bookkeeping,
       CASE WHEN r.rolname <> current_user AND r.rolname !~ '^pg_' AND pg_catalog.pg_has_role(r.oid,
              CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 160000 THEN 'SET' ELSE 'MEMBER' END)
            THEN pg_catalog.quote_ident(r.rolname) END AS owner
  FROM (SELECT $1::pg_catalog.text AS name) AS wanted
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.name
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
