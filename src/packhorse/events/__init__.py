"""What happens to jobs, as events: for any process from the log, and for functions in the workers that see it."""
