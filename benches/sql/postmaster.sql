-- The postmaster's process id as the server itself knows it; needs a superuser or pg_read_server_files.
SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer AS pid;
