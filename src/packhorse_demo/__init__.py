"""The demo: a small shop with its own worker processes. Every scene is checked against the store."""
