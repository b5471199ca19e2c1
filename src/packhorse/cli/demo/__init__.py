"""The demo: a small shop with worker processes of its own, where every scene is checked against the store."""
