"""The embedded store: one file, or memory."""
