"""Finding and removing text that a benchmark holds, too."""
