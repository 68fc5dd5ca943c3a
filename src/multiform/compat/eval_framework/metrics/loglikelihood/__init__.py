"""Metrics of log-likelihoods."""
