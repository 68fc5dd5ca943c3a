"""Results: the scores of a run, as objects, tables, data frames and files."""

from multiform.results.export import to_json, write_results
from multiform.results.read import read_results
from multiform.results.results import Results
from multiform.results.samples import sample_lines
from multiform.results.values import FormResult, GroupResult

__all__ = ["FormResult", "GroupResult", "Results", "read_results", "sample_lines", "to_json", "write_results"]
