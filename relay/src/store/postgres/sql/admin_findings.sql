-- What the audit found, oldest first; $1: the closed ones too. A handful ever.
SELECT f.lane, f.from_n, f.to_n, f.expected, f.found, f.ids,
       (extract(epoch FROM clock_timestamp() - f.found_at) * 1000)::bigint, f.closed_by, f.reason
  FROM "fencepost".audit_findings f
 WHERE $1 OR f.closed_at IS NULL
 ORDER BY f.found_at, f.lane
