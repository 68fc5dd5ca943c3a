"""Results: scores with their provenance, on the screen and on disk."""

from multiform.results.export import sample_lines, to_json, write_results
from multiform.results.results import FormResult, GroupResult, Results

__all__ = ["FormResult", "GroupResult", "Results", "sample_lines", "to_json", "write_results"]
