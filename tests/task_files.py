"""Task files, and parts of them, that several tests share."""

from __future__ import annotations

#: Documents with a question, choices and the index of the right one.
MULTIPLE_CHOICE = """\
dataset_path: rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""


def extracting(task: str, dataset_path: str, pattern: str) -> str:
    """A task whose answers are written, and extracted by a pattern; a test may add to the filters at its end."""
    return f"""\
task: {task}
dataset_path: {dataset_path}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
metric_list: [{{metric: exact_match}}]
filter_list:
  - {{name: strict, filter: [{{function: regex, regex_pattern: '{pattern}'}}, {{function: take_first}}]}}
"""
