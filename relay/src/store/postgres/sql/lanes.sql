-- All lanes; whether a lease has run out is the database's clock's to say.
SELECT lane, first_slot, last_slot, owner, generation, (extract(epoch FROM lease_expires_at) * 1000000)::bigint,
       owner IS NULL OR lease_expires_at <= clock_timestamp()
  FROM "fencepost".lanes
 ORDER BY lane
