"""Schedules: rules that make jobs, each moment of a rule exactly one."""
