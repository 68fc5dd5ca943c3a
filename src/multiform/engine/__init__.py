"""The engine: runs forms on a model, and caches its responses."""
