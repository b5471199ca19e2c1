"""Measurements: every speed is a ratio within one run."""
