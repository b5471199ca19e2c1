"""What people write: tasks, calls, handles, queues, flows."""
