"""Import hooks for task files: modules of other harnesses and of older libraries, provided by Multiform."""
