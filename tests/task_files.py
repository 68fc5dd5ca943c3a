"""Parts of task files that tests of several packages share; each test adds a name and what it is about."""

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
#: Answers that are written, and compared once they are extracted; the dataset is still to be named.
GENERATION = """\
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
metric_list: [{metric: exact_match}]
"""
