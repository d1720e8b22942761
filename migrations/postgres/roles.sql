-- Optional: four NOLOGIN roles with the least rights that work, and the objects owned by the first. Run it
-- after the migrations and again after each later one, as a superuser or as a role with CREATEROLE that owns the
-- schema. Idempotent. Login roles become members: GRANT "fencepost_producer" TO my_service.
-- Column grants don't bind an owner: that is why the owner can't log in.

-- Roles belong to the whole cluster, so another database's installation may have made them already, or
-- be making them right now.
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['"fencepost_owner"', '"fencepost_producer"', '"fencepost_relay"', '"fencepost_admin"'] LOOP
    BEGIN
      IF to_regrole(wanted) IS NULL THEN
        EXECUTE 'CREATE ROLE ' || wanted || ' NOLOGIN';
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE oid = to_regrole('"fencepost_owner"') AND rolcanlogin) THEN
    RAISE EXCEPTION 'the owner role can log in, so its sessions may write id and xid'
      USING HINT = 'ALTER ROLE "fencepost_owner" NOLOGIN, and log in as another role';
  END IF;
  -- who hands objects over must be able to act as the new owner; from 16 on a role's maker is a member
  -- without that right
  IF NOT pg_has_role(to_regrole('"fencepost_owner"'),
                     CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    GRANT "fencepost_owner" TO CURRENT_USER;
  END IF;
END $$;

-- The schema first: a new owner of an object must be able to create in its schema.
ALTER SCHEMA "fencepost" OWNER TO "fencepost_owner";
ALTER SEQUENCE "fencepost".outbox_id_seq OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".outbox OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".origin OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".settings OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".lanes OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".batches OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".relays OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".audit_findings OWNER TO "fencepost_owner";
ALTER TABLE "fencepost".schema_migrations OWNER TO "fencepost_owner";
ALTER TYPE "fencepost".detour OWNER TO "fencepost_owner";
ALTER TYPE "fencepost".position OWNER TO "fencepost_owner";
ALTER FUNCTION "fencepost".uuid_v7 OWNER TO "fencepost_owner";
ALTER FUNCTION "fencepost".enqueue OWNER TO "fencepost_owner";

REVOKE ALL ON SCHEMA "fencepost" FROM PUBLIC;
REVOKE ALL ON "fencepost".outbox, "fencepost".origin, "fencepost".settings, "fencepost".lanes, "fencepost".batches,
  "fencepost".relays, "fencepost".audit_findings, "fencepost".schema_migrations FROM PUBLIC;
REVOKE ALL ON SEQUENCE "fencepost".outbox_id_seq FROM PUBLIC;
REVOKE ALL ON FUNCTION "fencepost".uuid_v7, "fencepost".enqueue FROM PUBLIC;

GRANT USAGE ON SCHEMA "fencepost" TO "fencepost_producer", "fencepost_relay", "fencepost_admin";

-- Producers: the public columns, and what RETURNING tells them. Never id, xid, slot or created_at.
GRANT INSERT (message_id, tenant, topic, type, key, partition, content_type, event_time, header_keys, header_values, payload),
  SELECT (id, message_id) ON "fencepost".outbox TO "fencepost_producer";
GRANT USAGE ON SEQUENCE "fencepost".outbox_id_seq TO "fencepost_producer";
GRANT EXECUTE ON FUNCTION "fencepost".uuid_v7, "fencepost".enqueue TO "fencepost_producer";

-- The relay reads the log, moves lanes on and fences.
GRANT SELECT ON "fencepost".outbox, "fencepost".origin, "fencepost".settings, "fencepost".schema_migrations TO "fencepost_relay";
GRANT SELECT ON SEQUENCE "fencepost".outbox_id_seq TO "fencepost_relay";
GRANT SELECT, INSERT, DELETE ON "fencepost".batches TO "fencepost_relay";
GRANT SELECT, UPDATE (owner, generation, lease_expires_at, status) ON "fencepost".lanes TO "fencepost_relay";
GRANT SELECT, INSERT, UPDATE, DELETE ON "fencepost".relays TO "fencepost_relay";
GRANT SELECT, INSERT (lane, from_n, to_n, expected, found, ids, relay) ON "fencepost".audit_findings TO "fencepost_relay";

-- Admins repair lanes, end leases, close findings and change settings. They may read messages, not change them.
GRANT SELECT ON "fencepost".outbox, "fencepost".origin, "fencepost".settings, "fencepost".lanes, "fencepost".batches,
  "fencepost".relays, "fencepost".audit_findings, "fencepost".schema_migrations TO "fencepost_admin";
GRANT SELECT ON SEQUENCE "fencepost".outbox_id_seq TO "fencepost_admin";
GRANT INSERT ON "fencepost".batches TO "fencepost_admin";
GRANT INSERT, UPDATE ON "fencepost".lanes TO "fencepost_admin";
GRANT DELETE ON "fencepost".relays TO "fencepost_admin";
GRANT UPDATE (closed_at, closed_by, reason) ON "fencepost".audit_findings TO "fencepost_admin";
GRANT UPDATE (kafka_cluster_id, keep_delivered) ON "fencepost".settings TO "fencepost_admin";
