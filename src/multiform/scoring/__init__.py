"""Scoring: filter, read, score and aggregate what a model answered."""
