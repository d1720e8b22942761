-- A lane's newest batch rows, one walk of the primary key's end. What a finding covers was told once and is
-- not counted again. A row that an operator or a Kafka transaction wrote has no count that the audit could use.
SELECT b.n,
       CASE WHEN b.kind IN ('mark', 'fence') AND b.open IS NULL AND coalesce(cardinality((b.pos_after).detours), 0) = 0
            THEN b.messages END,
       (b.pos_after).lo::text, (b.pos_after).lo_seq0, (b.pos_after).up::text, (b.pos_after).up_seq0,
       (b.pos_after).up_seq1, (b.pos_after).cursor_id
  FROM "fencepost".batches b
 WHERE b.lane = $1
   AND b.n >= greatest($2, coalesce((SELECT max(f.to_n) FROM "fencepost".audit_findings f WHERE f.lane = $1), 0))
 ORDER BY b.n DESC
 LIMIT $3
