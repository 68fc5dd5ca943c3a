"""What this package adds to Multiform; `pyproject.toml` names it."""
