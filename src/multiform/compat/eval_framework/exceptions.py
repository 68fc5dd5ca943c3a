"""Errors of metrics."""


class LogicError(Exception):
    """A metric was given what it cannot use."""
