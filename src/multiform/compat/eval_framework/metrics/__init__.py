"""Metrics by the kind of response."""
