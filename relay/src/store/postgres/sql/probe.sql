-- Leaves a random word in the session for the next statement to find.
SELECT pg_backend_pid(), set_config('fencepost.probe', gen_random_uuid()::text, false)
