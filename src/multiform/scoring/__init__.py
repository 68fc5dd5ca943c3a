"""Scoring: filter the responses of a model, extract predictions, score them and aggregate the scores."""
