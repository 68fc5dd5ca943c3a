"""Results: scores with their provenance, on the screen and on disk."""

from multiform.results.export import to_json, write_results
from multiform.results.results import FormResult, GroupResult, Results
from multiform.results.samples import sample_lines

__all__ = ["FormResult", "GroupResult", "Results", "sample_lines", "to_json", "write_results"]
