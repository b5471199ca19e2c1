"""Frozen values and pure functions: what Packhorse talks about, without any input or output."""
