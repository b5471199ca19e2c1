"""Who did what to jobs, queues and schedules, and what came of it: one stream that people can read later."""
