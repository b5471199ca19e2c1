"""Events of workers, for subscribers and the log."""
