-- Findings that nobody has closed, oldest first; few ever, through their partial index.
SELECT lane, from_n, to_n, expected, found, ids
  FROM "fencepost".audit_findings
 WHERE closed_at IS NULL
 ORDER BY found_at, lane
 LIMIT $1
