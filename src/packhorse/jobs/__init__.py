"""What users write: tasks, calls, handles, queues, plans."""
