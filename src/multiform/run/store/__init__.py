"""The store: the responses of every model, cached in one SQLite file."""

from multiform.run.store.store import CachedResponses, Store, chosen_store, default_path

__all__ = ["CachedResponses", "Store", "chosen_store", "default_path"]
