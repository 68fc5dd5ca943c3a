"""Tasks: what a task file states, the `TaskConfig` that follows from it, and its dataset; nothing is rendered here."""
