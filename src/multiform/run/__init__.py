"""Runs: options, the store of responses, executors, schedules, and the way from a command to its results."""
