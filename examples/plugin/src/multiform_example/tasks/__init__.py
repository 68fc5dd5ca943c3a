"""The folder of task files."""
