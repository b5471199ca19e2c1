"""Dead letters for code: handlers, groups of errors, and what can be done about dead jobs."""
