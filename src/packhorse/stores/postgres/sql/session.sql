SELECT current_setting('transaction_isolation'), pg_backend_pid();
