"""What happened, said once to whoever listens."""
