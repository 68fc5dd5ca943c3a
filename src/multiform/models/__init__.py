"""Models: one small interface, and what implements it."""

from multiform.models.base import Model, models, register_model

__all__ = ["Model", "models", "register_model"]
