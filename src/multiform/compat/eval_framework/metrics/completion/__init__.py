"""Metrics of what a model wrote."""
