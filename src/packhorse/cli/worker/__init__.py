"""What `packhorse worker` needs: the supervisor, signals, systemd, log lines and the status line."""
