-- Who holds which lane under which generation: for the view, and to wait for the takeover.
SELECT lane, owner, generation FROM "fencepost".lanes ORDER BY lane
