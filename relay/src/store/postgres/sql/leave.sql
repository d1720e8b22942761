-- Removes this relay's heartbeat, and gives back what the table says is still its own: a claim or a release whose
-- reply was lost, which would else keep a lane from everybody until its lease ends. An owner's name belongs to one
-- process start, and it claims nothing after this.
WITH gone AS (DELETE FROM "fencepost".relays WHERE owner = $1)
UPDATE "fencepost".lanes SET owner = NULL, lease_expires_at = NULL WHERE owner = $1
