SELECT current_setting('transaction_isolation'), pg_backend_pid(), current_setting('server_encoding');
