"""Where attempts run: in threads of our own, and in child processes that can be killed."""
