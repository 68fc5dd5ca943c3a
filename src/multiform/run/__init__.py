"""Runs: a model evaluates forms, as the options say, with a schedule, an executor and the store of responses."""
