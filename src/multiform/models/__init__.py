"""Models: one small interface, and what implements it."""

from multiform.models.base import Answer, Model, models, register_model

__all__ = ["Answer", "Model", "models", "register_model"]
