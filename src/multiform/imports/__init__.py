"""Import hooks for task files."""
