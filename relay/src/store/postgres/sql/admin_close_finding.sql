-- Closes a finding once: a second close would replace who and why.
UPDATE "fencepost".audit_findings
   SET closed_at = clock_timestamp(), closed_by = $3, reason = $4
 WHERE lane = $1 AND to_n = $2 AND closed_at IS NULL
