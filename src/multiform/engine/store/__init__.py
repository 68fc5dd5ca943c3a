"""The store: the responses of every model, cached in one SQLite file."""

from multiform.engine.store.store import Store, chosen_store, default_path

__all__ = ["Store", "chosen_store", "default_path"]
