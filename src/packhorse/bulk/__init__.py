"""Actions on many jobs at once, by filter: replay, cancel, drop and promote."""
