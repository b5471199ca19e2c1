"""Shared by both SQL stores: statements by name, parameters, rows, migrations."""
