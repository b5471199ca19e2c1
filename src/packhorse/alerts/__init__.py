"""Alerts: rules over queues, schedules and dead letters, evaluated by any process, and delivered by jobs."""
