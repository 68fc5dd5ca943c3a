"""Bad input gives one message, which names the place and says what to do, and exit code 2.

In a case's files, ``# here`` marks the line that the message must name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

RUN = ("run", "--model", "dummy", "--tasks")
COMMANDS = ("run", "show", "ls", "validate", "rum", "new", "export", "formats", "store", "docs", "lint")
ROW = {"question": "Which?", "choices": ["x", "y", "z"], "answer": 0}


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A bad input, and what the message must hold."""

    name: str
    #: How the message begins, after ``error: ``; with ``# here`` in a file, what follows that line's place.
    where: str
    #: Words of the message, the remedy among them.
    says: tuple[str, ...]
    argv: tuple[str, ...] = (*RUN, "task.yaml")
    #: What the task file says beside, or instead of, the usual.
    task: str = ""
    without: str = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)

    def write(self, folder: Any) -> None:
        folder.task(self.task, without=self.without)
        folder.write(self.files)

    def place(self, folder: Any) -> str:
        for name in ["task.yaml", *self.files]:
            lines = (folder.path / name).read_bytes().split(b"\n")
            marked = [number for number, line in enumerate(lines, start=1) if b"# here" in line]
            if marked:
                return f"{name}:{marked[0]}: {self.where}"
        return self.where


def task(name: str, text: str, where: str, *says: str, at: str = "", without: str = "", **files: str | bytes) -> Bad:
    """A task file that is wrong; `at` is what stands after it on the command line."""
    named = {key.replace("__", "/").replace("_DOT_", "."): value for key, value in files.items()}
    argv = (*RUN, f"task.yaml{at}")
    return Bad(name=name, task=text, where=where, says=says, argv=argv, without=without, files=named)


def data(name: str, rows: list[Any] | str | bytes, where: str, *says: str, at: str = "", text: str = "") -> Bad:
    """A right task over wrong rows."""
    content = rows if isinstance(rows, str | bytes) else "".join(json.dumps(row) + "\n" for row in rows)
    files = {"rows.jsonl": content}
    return Bad(name=name, task=text, where=where, says=says, argv=(*RUN, f"task.yaml{at}"), files=files)


def flags(name: str, argv: str | list[str], where: str, *says: str, **files: str | bytes) -> Bad:
    """A command line that is wrong; one that does not begin with a command is added to a right run."""
    given = argv.split() if isinstance(argv, str) else argv
    whole = given if given[:1] and given[0] in COMMANDS else [*RUN, "task.yaml", *given]
    named = {key.replace("__", "/").replace("_DOT_", "."): value for key, value in files.items()}
    return Bad(name=name, where=where, says=says, argv=tuple(whole), files=named)


def row(**changes: Any) -> dict[str, Any]:
    return {**ROW, **changes}


YAML = [
    task("tab", "metadata:\n\tversion: 1 # here\n", "not valid YAML", "a tab", "indent with spaces"),
    Bad(
        name="unclosed_quote",
        files={"task.yaml": 'task: t\ndescription: "abc\ntag: b\n'},
        where="task.yaml:2: not valid YAML",
        says=("the quote that opens here is not closed", "add the closing quote"),
    ),
    task("bad_indentation", "metadata:\n   a: 1\n  b: 2 # here\n", "not valid YAML", "check its indentation"),
    task("unclosed_bracket", "tag: [a, b # here\n", "not valid YAML", "bracket", "add the closing bracket"),
    task("colon_in_value", "description: a: b # here\n", "not valid YAML", "quote a value that holds ': '"),
    task("unquoted_template", "doc_to_text: {{question}} # here\n", "not valid YAML", "in quotes"),
    task("unquoted_template_and_text", "doc_to_text: {{question}}! # here\n", "not valid YAML", "in quotes"),
    task("unquoted_statement", "doc_to_text: {% if a %} # here\n", "not valid YAML", "in quotes"),
    task("undefined_alias", "metadata: *nope # here\n", "not valid YAML", "alias"),
    task("unknown_tag", "metadata: !env HOME # here\n", "not valid YAML", "unknown tag '!env'", "!function"),
    task("python_tag", "metadata: !!python/name:os.system # here\n", "not valid YAML", "unknown tag"),
    task("two_documents", "--- # here\ntask: u\n", "not valid YAML", "keep one document in a file"),
    task("key_that_is_a_list", "? [a, b] # here\n: 1\n", "not valid YAML", "write key: value"),
    task("impossible_date", "metadata:\n  a: 1\n  b: 2024-13-45 # here\n", "a value cannot be read", "quote it"),
    Bad(
        name="not_utf8",
        files={"task.yaml": b"task: t\ndescription: caf\xe9\n"},
        where="task.yaml:2: not UTF-8: byte 0xe9",
        says=("save the file as UTF-8",),
    ),
    Bad(
        name="control_character",
        files={"task.yaml": b"task: t\ndescription: a\0b\n"},
        where="task.yaml:2: not valid YAML",
        says=("U+0000", "remove it"),
    ),
    Bad(
        name="empty_file",
        files={"task.yaml": "# nothing\n"},
        where="task.yaml:1: ",
        says=("expected a mapping", "an empty file", "start with 'task: name'"),
    ),
    Bad(
        name="list_instead_of_mapping",
        files={"task.yaml": "- task: t\n"},
        where="task.yaml:1: ",
        says=("expected a mapping", "a list", "start with 'task: name'"),
    ),
    task("include_missing", "include: comon # here\n", "include: no file", "did you mean 'common'?", common="tag: a\n"),
    task("include_of_wrong_type", "include: [5] # here\n", "include: ", "expected a file name", "common.yaml"),
    task("include_of_a_folder", "include: sub # here\n", "include: 'sub' is a folder", sub__a_DOT_yaml="tag: a\n"),
    task("include_of_a_list", "include: b.yaml\n", "expected a mapping", b_DOT_yaml="- a # here\n"),
    task("include_cycle_of_one", "include: task.yaml # here\n", "include: include cycle", "task.yaml -> task.yaml"),
    task(
        "include_cycle_of_three",
        "include: b.yaml\n",
        "include: include cycle: task.yaml -> b.yaml -> c.yaml -> task.yaml",
        "remove one of these includes",
        b_DOT_yaml="include: c.yaml\n",
        c_DOT_yaml="tag: a\ninclude: task.yaml # here\n",
    ),
]

KEYS = [
    task("no_name", "metadata: {}\n", "task.yaml:1: missing key 'task'", "give the task a name", without="task"),
    task(
        "name_of_two_lines", 'task: "a\\nb" # here\n', "task: the name 'a\\nb' has more than one line", without="task"
    ),
    task("unknown_key", "doc_to_txt: a # here\n", "doc_to_txt: unknown key", "did you mean 'doc_to_text'?"),
    task("unknown_key_lists_known_ones", "zzz: a # here\n", "zzz: unknown key", "the keys are: answer_base"),
    task("private_key", "_source: 5 # here\n", "_source: unknown key", "remove it"),
    task(
        "unknown_key_of_an_included_file",
        "include: b.yaml\n",
        "doc_to_txt: unknown key",
        "did you mean 'doc_to_text'?",
        b_DOT_yaml="tag: a\ndoc_to_txt: a # here\n",
    ),
    task(
        "unknown_key_in_fewshot_config",
        "fewshot_config:\n  split: test\n  smpler: a # here\n",
        "fewshot_config.smpler: unknown key",
        "did you mean 'sampler'?",
    ),
    task("num_fewshot_word", "num_fewshot: five # here\n", "num_fewshot: expected a whole number", "got 'five'"),
    task("num_fewshot_negative", "num_fewshot: -1 # here\n", "num_fewshot: expected 0 or more", "got -1"),
    task("num_fewshot_bool", "num_fewshot: true # here\n", "num_fewshot: expected a whole number", "got true"),
    task("doc_to_choice_number", "doc_to_choice: 5 # here\n", "doc_to_choice: expected a string, a list", "got 5"),
    task(
        "doc_to_text_fraction", "doc_to_text: 1.5 # here\n", "doc_to_text: expected a string", "doc_to_text: question"
    ),
    task("metric_list_word", "metric_list: acc # here\n", "metric_list: expected a list", "[{metric: acc}]"),
    task("metric_word", "metric_list:\n  - acc # here\n", "metric_list.0: expected a mapping", "[{metric: acc}]"),
    task("metric_without_name", "metric_list:\n  - aggregation: mean # here\n", "metric_list.0: missing key 'metric'"),
    task(
        "higher_is_better_word",
        "metric_list:\n  - metric: acc\n    higher_is_better: maybe # here\n",
        "metric_list.0.higher_is_better: expected true or false",
    ),
    task("filter_list_word", "filter_list: regex # here\n", "filter_list: expected a list", "take_first"),
    task("pipeline_without_name", "filter_list: [{filter: []}] # here\n", "filter_list.0: missing key 'name'"),
    task(
        "filter_without_function",
        "filter_list:\n  - name: a\n    filter:\n      - kwargs: {} # here\n",
        "filter_list.0.filter.0: missing key 'function'",
        "take_first",
    ),
    task("scorer_number", "scorer: 5 # here\n", "scorer: expected a string, a mapping or null", "choice_match"),
    task("scorer_without_type", "scorer: {kwargs: {}} # here\n", "scorer: missing key 'type'", "choice_match"),
    task("output_type", "output_type: foo # here\n", "output_type: expected one of multiple_choice", "got 'foo'"),
    task("repeats_zero", "repeats: 0 # here\n", "repeats: expected 1 or more, got 0"),
    task("test_split_number", "test_split: 5 # here\n", "test_split: expected a string or null, got 5"),
    task("target_delimiter_null", "target_delimiter: # here\n", "target_delimiter: expected a string, got null"),
    task("dataset_kwargs_word", "dataset_kwargs: a # here\n", "dataset_kwargs: expected a mapping", "data_files"),
    task("tag_number", "tag: 5 # here\n", "tag: expected a list, got 5", "tag: [science, english]"),
    task("process_docs_word", "process_docs: a # here\n", "process_docs: expected a function", "!function utils."),
    task("fewshot_config_number", "fewshot_config: 5 # here\n", "fewshot_config: expected a mapping", "first_n"),
    task("key_that_is_a_number", "metadata: {1: a} # here\n", "metadata: the key 1 is not text", "put it in quotes"),
    task("formats_number", "formats: 5 # here\n", "formats: expected a string, a mapping", "formats: mcqa"),
    *(
        task(
            f"generation_kwargs_{name}",
            f"output_type: generate_until\ngeneration_kwargs:\n  {name}: {value} # here\n",
            f"generation_kwargs.{name}: {name} is",
            remedy,
        )
        for name, value, remedy in [
            ("until", "5", "give a string or a list of strings"),
            ("max_gen_toks", "0", "give a whole number of 1 or more"),
            ("temperature", "-1", "give a number of 0 or more"),
            ("do_sample", "maybe", "give true or false"),
            ("seed", "today", "give a whole number"),
        ]
    ),
]

FORMATS = [
    task(
        "too_few_labels",
        "formats:\n  type: mcqa\n  choice_labels: [A] # here\n",
        "formats.choice_labels: doc 0: 3 choices but only 1 labels",
        "add labels",
    ),
    *(
        task(
            f"{part}_fails",
            f"formats:\n  type: mcqa\n  {part}: '{{{{ nope }}}}' # here\n",
            f"formats.{part}: doc 0: no column 'nope'",
            "the columns are",
        )
        for part in ("instruction", "answer_instruction", "answer_prompt", "question_prefix")
    ),
    task("format_unknown", "formats: mqca # here\n", "formats: unknown format 'mqca'", "did you mean 'mcqa'?"),
    task("format_unknown_after_at", "", "t@mqca: unknown format 'mqca'", "did you mean 'mcqa'?", at="@mqca"),
    task("one_of_two_formats_unknown", "", "t@zzz: unknown format", "mcqa", "cloze", at="@mcqa+zzz"),
    task("no_format_after_at", "", "task.yaml@: no format after the '@'", "mcqa", "or all", at="@"),
    task("format_table_empty", "formats: {} # here\n", "formats: the table of formats is empty", "formats: mcqa"),
    task(
        "format_type_unknown",
        "formats:\n  mine:\n    type: mqca # here\n",
        "formats",
        "unknown format type 'mqca'",
        "did you mean 'mcqa'?",
    ),
    task("format_type_missing", "formats:\n  mine: # here\n    answer_prompt: A\n", "formats", "give it a 'type'"),
    *(
        task(f"format_{name}", f"formats:\n  {kind}:\n    {line} # here\n", "formats", *says)
        for name, kind, line, *says in [
            ("unknown_key", "mcqa", "qustion_prefix: Q", "unknown key", "did you mean 'question_prefix'?"),
            ("labels_word", "mcqa", "choice_labels: greek", "expected one of letters, numbers, lower", "'greek'"),
            ("labels_twice", "mcqa", "choice_labels: [A, A]", "distinct labels"),
            ("scored", "mcqa", "scored: label", "expected one of labels, texts, gold, generation"),
            ("choice_format", "mcqa", "choice_format: '{label}'", "text with {choice} in it"),
            ("question_prefix", "mcqa", "question_prefix: 5", "expected a string, got 5"),
            ("scorer_unknown", "generate", "scorer: nope", "unknown scorer 'nope'", "choice_match"),
            ("metric_unknown", "mcqa", "metric_list: [nope]", "unknown metric 'nope'"),
            ("metric_that_does_not_fit", "mcqa", "metric_list: [bleu]", "bleu does not fit"),
            ("generation_kwargs", "cot", "generation_kwargs: {max_gen_toks: 0}", "max_gen_toks is 0"),
            ("instruction_syntax", "mcqa", "instruction: '{{ a'", "template syntax error"),
        ]
    ),
    task(
        "more_choices_than_labels",
        "formats:\n  mcqa: {choice_labels: [A, B]}\n",
        "task.yaml",
        "doc 0: 3 choices but only 2 labels (A, B)",
        "add labels to choice_labels",
    ),
    task(
        "format_needs_choices",
        "formats: mcqa # here\n",
        "formats: format 'mcqa' needs choices",
        "set doc_to_choice",
        "cot",
        without="doc_to_choice",
    ),
    task(
        "prompt_instead_of_question",
        'doc_to_text: "Question: {{question}}\\nAnswer:"\nformats: mcqa # here\n',
        "formats: doc_to_text is a prompt already",
        "give the bare question",
    ),
    task("labels_instead_of_choices", "doc_to_choice: [A, B, C]\n", "task.yaml", "the choices' texts", at="@mcqa"),
]

SCORING = [
    task(
        "metric_unknown",
        "metric_list:\n  - metric: acc\n  - metric: acc_nrm # here\n",
        "metric_list.1: unknown metric 'acc_nrm'",
        "did you mean 'acc_norm'?",
    ),
    task(
        "metric_that_does_not_fit",
        "output_type: generate_until\nmetric_list:\n  - metric: exact_match\n  - metric: acc # here\n",
        "metric_list.1: ",
        "acc does not fit output_type generate_until",
        "exact_match",
    ),
    task(
        "metric_argument",
        "output_type: generate_until\nmetric_list:\n  - {metric: exact_match, foo: 1} # here\n",
        "metric_list.0: ",
        "foo",
        "ignore_case",
    ),
    task(
        "aggregation_unknown", "metric_list:\n  - {metric: acc, aggregation: men} # here\n", "metric_list.0: ", "'mean'"
    ),
    task(
        "filter_unknown", "filter_list:\n  - {name: a, filter: [{function: regx}]} # here\n", "filter_list.0", "'regex'"
    ),
    task(
        "filter_argument",
        "filter_list:\n  - {name: a, filter: [{function: regex, foo: 1}]} # here\n",
        "filter_list.0",
        "foo",
        "check its arguments",
    ),
    task(
        "filter_regex",
        "filter_list:\n  - {name: a, filter: [{function: regex, regex_pattern: '('}]} # here\n",
        "filter_list.0",
        "bad regular expression",
        "test the pattern",
    ),
    task("scorer_unknown", "scorer: choice_mach # here\n", "scorer: unknown scorer", "did you mean 'choice_match'?"),
    task(
        "scorer_argument",
        "output_type: generate_until\nscorer: {type: choice_match, kwargs: {foo: 1}} # here\n",
        "scorer: ",
        "foo",
    ),
    task(
        "sampler_unknown",
        "num_fewshot: 1\nfewshot_config:\n  sampler: first # here\n",
        "fewshot_config.sampler: ",
        "unknown sampler 'first'",
        "first_n",
    ),
]

UTILS = "def text(doc):\n    return 'x'\n\n\ndef fails(*args, **kwargs):\n    raise KeyError('boom')\n\n\nvalue = 5\n"
FUNCTIONS = [
    task(f"function_{name}", f"{key}: !function {reference} # here\n", where, *says, utils_DOT_py=UTILS, **files)
    for name, key, reference, where, says, files in [
        ("module_missing", "doc_to_text", "utlis.text", "!function utlis.text: no module 'utlis'", ["utlis.py"], {}),
        ("name_missing", "doc_to_text", "utils.txt", "!function utils.txt: no 'txt'", ["did you mean 'text'?"], {}),
        ("not_a_function", "doc_to_text", "utils.value", "!function utils.value: it is of type int", ["name a f"], {}),
        ("not_module_and_name", "doc_to_text", "text", "!function expects module.name", ["!function utils."], {}),
        ("outside_its_folder", "doc_to_text", "../utils.text", "!function expects module.name", ["beside"], {}),
        ("absolute_path", "doc_to_text", "/tmp/utils.text", "!function expects module.name", ["beside"], {}),
        (
            "module_that_raises",
            "doc_to_text",
            "bad.text",
            "!function bad.text: bad.py failed to load: ZeroDivisionError",
            ["fix bad.py:2"],
            {"bad_DOT_py": "import os\n1 / 0\n"},
        ),
        (
            "module_that_exits",
            "doc_to_text",
            "bad.text",
            "!function bad.text: bad.py failed to load: SystemExit",
            ["fix bad.py:3"],
            {"bad_DOT_py": "import sys\n\nsys.exit(7)\n"},
        ),
        (
            "module_with_syntax_error",
            "doc_to_text",
            "bad.text",
            "!function bad.text: bad.py failed to load: SyntaxError",
            ["fix bad.py:1"],
            {"bad_DOT_py": "def f(:\n"},
        ),
        ("doc_to_text_fails", "doc_to_text", "utils.fails", "doc_to_text: doc 0: ", ["fails", "KeyError: 'boom'"], {}),
        ("doc_to_choice_fails", "doc_to_choice", "utils.fails", "doc_to_choice: doc 0: ", ["KeyError"], {}),
        ("process_docs_fails", "process_docs", "utils.fails", "process_docs: ", ["KeyError: 'boom'", "debug"], {}),
        ("custom_dataset_fails", "custom_dataset", "utils.fails", "custom_dataset: ", ["KeyError: 'boom'"], {}),
        ("description_fails", "description", "utils.fails", "description: doc 0: ", ["KeyError: 'boom'"], {}),
    ]
]

FIELDS = [
    task("column_missing", "doc_to_choice: choises # here\n", "doc_to_choice: doc 0: no column", "mean 'choices'?"),
    task("column_missing_lists_them", "doc_to_text: zzz # here\n", "doc_to_text: doc 0: ", "answer, choices, question"),
    task("column_missing_in_format", "doc_to_text: qestion # here\n", "doc_to_text: ", "'question'?", at="@mcqa"),
    task(
        "template_column", "doc_to_text: '{{ qestion }}' # here\n", "doc_to_text: doc 0: ", "did you mean 'question'?"
    ),
    task("template_attribute", "doc_to_choice: '{{ choices.text }}' # here\n", "doc_to_choice: doc 0: ", "'text'"),
    task("template_syntax", "doc_to_text: '{{ question' # here\n", "doc_to_text: template syntax error", "braces"),
    task("template_syntax_in_format", "doc_to_text: '{{ question' # here\n", "doc_to_text: ", "syntax", at="@mcqa"),
    task("template_filter", "doc_to_text: '{{ question|nope }}' # here\n", "doc_to_text: ", "No filter named 'nope'"),
    task("template_error", "doc_to_text: '{{ 1 / 0 }}' # here\n", "doc_to_text: doc 0: ", "division by zero"),
    task("sandbox_class", "doc_to_text: '{{ question.__class__ }}' # here\n", "doc_to_text: doc 0: ", "sandbox"),
    task("sandbox_change", "doc_to_text: '{{ choices.append(1) }}' # here\n", "doc_to_text: doc 0: ", "sandbox"),
    task(
        "sandbox_in_format", "doc_to_text: '{{ question.__class__ }}' # here\n", "doc_to_text: ", "sandbox", at="@cot"
    ),
    task("no_doc_to_choice", "", "task.yaml:1: ", "no doc_to_choice", "set doc_to_choice", without="doc_to_choice"),
    task("no_doc_to_text", "", "task.yaml:1: ", "no doc_to_text", "set doc_to_text", without="doc_to_text"),
    task("no_doc_to_target", "", "task.yaml:1: ", "no doc_to_target", "set doc_to_target", without="doc_to_target"),
]

ODD_ROWS: list[tuple[Any, ...]] = [
    ("choices_text", {"choices": "xyz"}, 6, "doc_to_choice: doc 1: expected a list of choices, got 'xyz'"),
    ("choices_null", {"choices": None}, 6, "doc_to_choice: doc 1: expected a list of choices, got None"),
    ("choices_empty", {"choices": []}, 6, "doc_to_choice: doc 1: the list of choices is empty"),
    ("choice_null", {"choices": ["a", None]}, 6, "doc_to_choice: doc 1: a choice is None"),
    ("gold_out_of_range", {"answer": 7}, 7, "doc_to_target: doc 1: the answer 7", "not between 0 and 2"),
    ("gold_negative", {"answer": -1}, 7, "doc_to_target: doc 1: the answer -1", "not between 0 and 2"),
    ("gold_unresolvable", {"answer": "maybe"}, 7, "doc_to_target: doc 1: ", "neither one of the choices nor"),
    ("gold_null", {"answer": None}, 7, "doc_to_target: doc 1: the answer None", "doc_to_target an index"),
    ("gold_ambiguous", {"choices": ["B", "A"], "answer": "B"}, 7, "doc_to_target: doc 1: ", "ambiguous"),
]

DOCUMENTS = [
    data(f"{name}{'_in_a_format' if at else ''}", [row(), row(**changed)], f"task.yaml:{line}: ", *says, at=at)
    for at in ("", "@mcqa")
    for name, changed, line, *says in ODD_ROWS
    if at or not name.startswith("gold")  # without a format, see ODD
]

#: What lm-eval runs is no error; what is hardly meant is said, with the same care.
ODD = [
    task("duplicate_key", "tag: a\ntag: b # here\n", "the key 'tag' is given twice", "remove one of the two"),
    task("nested_duplicate_key", "metadata:\n  a: 1\n  a: 2 # here\n", "the key 'a' is given twice"),
    task(
        "one_metric_with_two_arguments",
        "output_type: generate_until\nmetric_list:\n"
        "  - {metric: exact_match, ignore_case: true} # here\n  - {metric: exact_match}\n",
        "metric_list.0: metric 'exact_match' is listed twice with different arguments",
        "the last one counts",
        "a filter pipeline of its own",
        without="doc_to_choice",
    ),
    task("ignored_argument", "metric_list:\n  - {metric: acc, foo: 1} # here\n", "metric_list.0: ", "foo", "ignored"),
    *(
        data(name, [row(), row(answer=answer)], "task.yaml:7: doc_to_target: doc 1: the answer", *says)
        for name, answer, *says in [
            ("gold_out_of_range", 7, "not between 0 and 2", "counts as wrong"),
            ("gold_negative", -1, "not between 0 and 2", "counts as wrong"),
            ("gold_unresolvable", "maybe", "neither one of the choices nor", "counts as wrong"),
            ("gold_null", None, "doc_to_target an index", "counts as wrong"),
        ]
    ),
]

FILES = [
    data(
        "question_is_a_number",
        [row(question=5)],
        "task.yaml:5: doc_to_text: doc 0: the question is the whole number 5, so it is the index of the right choice",
        "there are 3 choices",
        'doc_to_text: "Question: {{question}}"',
    ),
    data(
        "answers_are_hidden", [row(answer=-1)], "task.yaml:7: doc_to_target: doc 0", "hides the answers of this split"
    ),
    data("answer_column_missing", [{"question": "q", "choices": ["a"]}], "task.yaml:7: ", "no column 'answer'"),
    data("no_documents", "", "task.yaml", "no documents in split 'test' of rows.jsonl", "check the data file"),
    data("json_broken", b'{"question": "a"}\n{"question": \n', "rows.jsonl:2: not valid JSON", "fix this line"),
    data(
        "json_number_too_long", b'{"answer": ' + b"9" * 5000 + b"}\n", "rows.jsonl:1: not valid JSON", "fix this line"
    ),
    data("json_too_deep", "[" * 100_000, "rows.jsonl:1: not valid JSON", "fix this line"),
    data("row_not_an_object", [row(), 5], "rows.jsonl:2: expected an object", '{"column": value, ...}'),
    data("rows_not_utf8", b'{"question": "a"}\n{"question": "\xff"}\n', "rows.jsonl:2: not UTF-8", "save the file as"),
    task("data_file_missing", "dataset_path: rws.jsonl # here\n", "dataset_path: no such file", "looked for rws.jsonl"),
    task(
        "dataset_not_found", "dataset_path: org/nope # here\n", "dataset_path: dataset 'org/nope'", "--dataset_mirror"
    ),
    task("data_file_kind", "dataset_path: a.xyz\n", "a.xyz: unknown kind of data file", ".jsonl", a_DOT_xyz="x"),
    task(
        "data_file_of_excel",
        "dataset_path: a.xlsx\n",
        "a.xlsx: unknown kind of data file",
        "'CSV UTF-8'",
        a_DOT_xlsx="x",
    ),
    task("folder_without_data", "dataset_path: d # here\n", "dataset_path: no data files in d", "jsonl", d__a="x"),
    task("json_object", "dataset_path: a.json\n", "a.json: expected a list of objects", ".jsonl", a_DOT_json="{}"),
    task("json_item", "dataset_path: a.json\n", "a.json: item 1: expected an object", a_DOT_json="[{}, 5]"),
    task("json_list_broken", "dataset_path: a.json\n", "a.json:2: not valid JSON", "fix", a_DOT_json="[{},\n{]"),
    task("csv_ragged", "dataset_path: a.csv\n", "a.csv:2: 3 values for 2 columns", "quote a", a_DOT_csv="a,b\n1,2,3\n"),
    task("csv_quote", "dataset_path: a.csv\n", "a.csv:2: not valid CSV", "quotes", a_DOT_csv='a,b\n"1,2\n'),
    task("csv_column_twice", "dataset_path: a.csv\n", "a.csv:1: the column 'a'", "rename", a_DOT_csv="a,a\n1,2\n"),
    task("csv_not_utf8", "dataset_path: a.csv\n", "a.csv:2: not UTF-8", "save", a_DOT_csv=b"a,b\n\xff,2\n"),
    task(
        "parquet_corrupt",
        "dataset_path: a.parquet\n",
        "a.parquet: not a Parquet",
        "write it again",
        a_DOT_parquet="PAR1 PAR1",
    ),
    task(
        "json_without_files", "dataset_path: json # here\n", "dataset_path: 'json' is a kind", "data_files: rows.jsonl"
    ),
    task(
        "data_files_missing",
        "dataset_path: json\ndataset_kwargs:\n  data_files: rws.jsonl # here\n",
        "dataset_kwargs.data_files: no data file 'rws.jsonl'",
        "looked for rws.jsonl",
    ),
    task("no_dataset", "", "task.yaml:1: the task names no dataset", "set dataset_path", without="dataset_path"),
    task("no_split", "", "task.yaml:1: the task names no split", "set test_split", "train", without="test_split"),
    task(
        "split_unknown",
        "dataset_path: d\ntest_split: tset # here\n",
        "test_split: no split 'tset' in d",
        "did you mean 'test'?",
        d__test_DOT_jsonl="",
        d__train_DOT_jsonl="",
    ),
    task(
        "split_unknown_lists_them",
        "dataset_path: d\ntest_split: zzz # here\n",
        "test_split: no split 'zzz' in d",
        "its splits are: test, train",
        d__test_DOT_jsonl="",
        d__train_DOT_jsonl="",
    ),
    task(
        "dataset_name_unknown",
        "dataset_path: d\ndataset_name: chalenge # here\n",
        "dataset_name: no folder 'chalenge' in d",
        "did you mean 'challenge'?",
        d__challenge__test_DOT_jsonl="",
    ),
    *(
        data(
            f"question_null_{form}", [row(), row(question=None)], "task.yaml:5", "doc 1: the question is null", at=form
        )
        for form in ("@mcqa", "@cot", "")
    ),
    task("too_many_shots", "num_fewshot: 4 # here\n", "num_fewshot: doc 0: 4 few-shot examples", "lower num_fewshot"),
    task(
        "broken_shot",
        "num_fewshot: 1\ndataset_path: d\nfewshot_split: train\n",
        "task.yaml",
        "few-shot row 0 of split 'train'",
        "the answer 7",
        at="@mcqa",
        d__test_DOT_jsonl=json.dumps(row()),
        d__train_DOT_jsonl=json.dumps(row(answer=7)),
    ),
]

TASKS = [
    flags("task_unknown", "run --tasks quizz --model dummy", "quizz: no task, tag or file", "did you mean 'quiz'?"),
    flags("task_unknown_with_format", "run --tasks quizz@mcqa", "quizz@mcqa: no task", "did you mean 'quiz'?"),
    flags("glob_without_match", "run --tasks zz*", "zz*: no task, tag or file", "'multiform ls tasks'"),
    flags("task_file_missing", "run --tasks tsk.yaml", "tsk.yaml: no such file", "did you mean 'task.yaml'?"),
    flags("task_folder_missing", "run --tasks no/t.yaml", "no/t.yaml: no such file", "there is no folder no"),
    flags("folder_as_task", "run --tasks d", "d: it is a folder", "--include_path d", d__a_DOT_yaml="task: a\n"),
    flags("data_as_task", "run --tasks rows.jsonl", "rows.jsonl: it is a data file", "multiform new rows.jsonl"),
    flags("text_as_task", "run --tasks a.txt", "a.txt: it is not a task file", "ends in .yaml", a_DOT_txt="a"),
    flags("no_task_before_at", "run --tasks @mcqa", "@mcqa: no task before the '@'", "quiz@mcqa"),
    flags("no_tasks", "run --model dummy", "--tasks: no tasks named", "multiform run quiz@all"),
    flags("empty_tasks", "run --tasks ,", "--tasks: no tasks named", "--tasks quiz@all"),
    flags(
        "task_of_a_broken_file",
        "run --tasks broken --include_path d",
        "broken: no task, tag or file of that name; its file cannot be read: d/a.yaml:2: not valid YAML",
        "a tab",
        d__a_DOT_yaml="task: broken\n\ttag: a\n",
    ),
    flags(
        "one_name_in_two_files",
        "run --tasks task.yaml b.yaml --model dummy",
        "b.yaml:1: task: two files define 't'",
        "rename one of the two",
        b_DOT_yaml="task: t\ndataset_path: rows.jsonl\ntest_split: test\n",
    ),
    flags(
        "two_formats_with_two_signs",
        "run --tasks task.yaml@mcqa@cloze",
        "task.yaml@mcqa@cloze: more than one '@'",
        "join formats with '+': task.yaml@mcqa+cloze",
    ),
    flags(
        "python_file_broken", "run --tasks p.py", "p.py:2: not valid Python", "fix this line", p_DOT_py="x = 1\nx y\n"
    ),
    flags("python_file_not_utf8", "run --tasks p.py", "p.py:1: not UTF-8", "save the file as", p_DOT_py=b"# \xff\n"),
    flags(
        "group_with_a_member_unknown",
        "run --tasks g.yaml",
        "g.yaml:2: task.0: member 'nowhere': no task, tag or file of that name",
        "'multiform ls tasks'",
        g_DOT_yaml="group: g\ntask: [nowhere]\n",
    ),
    flags(
        "include_path_is_a_file", "--include_path rows.jsonl", "--include_path: 'rows.jsonl' is a file", "the folder"
    ),
    flags("include_path_missing", "--include_path nope", "--include_path: no folder 'nope'", "check the path"),
    flags("mirror_missing", "--dataset_mirror nope", "--dataset_mirror: no folder 'nope'", "check the path"),
    flags("show_task_unknown", "show quizz", "quizz: no task, tag or file", "did you mean 'quiz'?"),
]

FLAGS = [
    flags("command_unknown", "rum", "multiform: no command 'rum'", "did you mean 'run'?"),
    flags("kind_unknown", "ls task", "ls: no 'task'", "did you mean 'tasks'?"),
    flags("flag_unknown", "--limt 5", "multiform run: no flag --limt", "did you mean '--limit'?"),
    flags("flag_without_value", "--limit", "--limit: expected one argument", "see multiform run --help"),
    flags("stray_word", "run task.yaml --json other", "multiform run: 'other' belongs to no flag", "--help"),
    flags("verbosity", "--verbosity loud", "--verbosity: no 'loud'", "there are: CRITICAL"),
    flags("model_unknown", "run --tasks task.yaml --model dumy", "--model: no model 'dumy'", "did you mean 'dummy'?"),
    flags("model_argument_unknown", "--model_args sed=1", "", "'sed'", "did you mean 'seed'?"),
    flags("model_args_without_value", "--model_args seed", "--model_args: expected key=value, got 'seed'", "key=value"),
    flags("model_args_twice", "--model_args seed=1,seed=2", "--model_args: 'seed' is given twice", "remove one"),
    flags("model_args_json", ["--model_args", '{"seed": '], "--model_args: not valid JSON", "key=value,key=value"),
    flags("gen_kwargs_without_value", "--gen_kwargs until", "--gen_kwargs: expected key=value", "a JSON object"),
    flags("gen_kwargs_value", "--gen_kwargs max_gen_toks=0", "--gen_kwargs: max_gen_toks is 0", "1 or more"),
    flags("samples_json", ["--samples", "{t: [1]}"], "--samples: not valid JSON", "'{\"quiz\": [0, 5]}'"),
    flags(
        "samples_list",
        ["--samples", "[1]"],
        "--samples: expected a list of indexes for each task",
        "'{\"quiz\": [0, 5]}'",
    ),
    flags("samples_number", ["--samples", '{"t": 5}'], "--samples: expected a list of indexes for each task", "5}"),
    flags("samples_empty", ["--samples", '{"t": []}'], "--samples: expected a list of indexes for each task", "[]}"),
    flags("samples_out_of_range", ["--samples", '{"t": [4]}'], "t: no document 4", "documents 0 to 3"),
    flags("samples_of_unknown_task", ["--samples", '{"u": [1]}'], "--samples: ", "'u'", "tasks of this run are: t"),
    flags("samples_file_missing", "--samples nope.json", "--samples: cannot read 'nope.json'", '{"quiz": [0, 5]}'),
    flags("samples_file_broken", "--samples s.json", "--samples: s.json: not valid JSON", s_DOT_json="[1"),
    flags("samples_and_limit", ["--limit", "1", "--samples", '{"t": [0]}'], "--samples: ", "give one of them"),
    *(
        flags(f"limit_{value}", ["--limit", value], "--limit: expected a whole number of 1 or more", "--limit 0.1")
        for value in ("0", "-1", "1.5", "many", "nan", "inf")
    ),
    *(
        flags(
            f"seed_{value}",
            ["--seed", value],
            "--seed: expected the seeds of python",
            "0,1234,1234,1234",
        )
        for value in ("x", "1,2", "1.5")
    ),
    *(
        flags(f"seed_{value}", ["--seed", value], "--seed: expected a number from 0 to 4294967295", "--seed 1234")
        for value in ("-1", "0,-1,0,0", "4294967296")
    ),
    *(
        flags(f"batch_size_{value}", ["--batch_size", value], "--batch_size: expected a whole number of 1 or more", "8")
        for value in ("0", "-2", "many", "auto:0", "1.5")
    ),
    flags("model_empty", ["--model", ""], "--model: the name of the model is empty", "multiform ls models"),
    *(
        flags(f"num_fewshot_{value}", ["--num_fewshot", value], "--num_fewshot: expected a whole number", "e.g.")
        for value in ("x", "-1", "1.5")
    ),
    flags("cache_path_is_a_folder", "--cache_path .", "--cache_path: '.' is a folder", "--cache_path answers.db"),
    flags("cache_requests", "--cache_requests maybe", "--cache_requests: no 'maybe'", "delete, refresh, true"),
    flags("metadata_without_value", "--metadata a", "--metadata: expected key=value, got 'a'", "key=value"),
    flags("model_args_several", "--model_args seed=1 two", "--model_args: expected key=value, got 'two'", "key=value"),
    flags("max_batch_size", "--max_batch_size 0", "--max_batch_size: expected a whole number of 1 or more", "e.g."),
    flags(
        "model_of_lm_eval", "--model sglang", "--model: the model 'sglang' of lm-eval is not here", "local-completions"
    ),
    flags("bootstrap_iters", "--bootstrap_iters -5", "--bootstrap_iters: expected a whole number of 0 or more", "e.g."),
    flags("corpus_missing", "--decontamination_corpus a.txt", "--decontamination_corpus: no file 'a.txt'", "check"),
    *(
        flags(f"doc_{value}", ["show", "task.yaml", f"--doc={value}"], "--doc: ", "N, A:B or all", "documents 0 to 3")
        for value in ("x", "-1", "99", "2:1", "1:2:3")
    ),
    flags(
        "too_many_shots_asked_for", "--num_fewshot 9", "--num_fewshot: t", "9 few-shot examples", "lower num_fewshot"
    ),
    flags("multiturn", "--fewshot_as_multiturn maybe", "--fewshot_as_multiturn: expected true or false", "maybe"),
    flags("log_samples_alone", "--log_samples", "--log_samples: there is no --output_path", "--output_path results"),
    flags("output_path_is_a_file", "--output_path out", "--output_path: cannot write to 'out'", "in the way", out="x"),
    flags("output_path_below_a_file", "--output_path out/a", "--output_path: cannot write", "in the way", out="x"),
    flags("output_path_empty", ["--output_path", ""], "--output_path: the name of the folder is empty", "results"),
    flags("validate_nothing", "validate", "validate: no tasks named", "multiform validate my_task.yaml"),
    *(
        flags(f"config_{name}", "run --config c.yaml", where, *says, c_DOT_yaml=text)
        for name, text, where, *says in [
            ("unknown_flag", "tasks: t\nmodle: dummy # here\n", "unknown flag 'modle'", "did you mean 'model'?"),
            ("list", "- tasks # here\n", "expected a mapping of flags", "tasks: quiz@all"),
            ("value", "tasks: t\nlimit: many # here\n", "limit: expected a whole number", "--limit 0.1"),
            ("word_for_a_number", "tasks: t\nbootstrap_iters: x # here\n", "bootstrap_iters: expected a whole number"),
            ("list_for_a_number", "tasks: t\nlimit: [1] # here\n", "limit: expected text or a number"),
            ("word_for_a_switch", "tasks: t\nlog_samples: 5 # here\n", "log_samples: expected true or false"),
            ("list_for_a_mapping", "tasks: t\nmodel_args: [a] # here\n", "model_args: expected a mapping"),
            ("mapping_for_tasks", "tasks: {a: b} # here\n", "tasks: expected text"),
        ]
    ),
    flags("show_nothing", "show", "multiform show: missing: T[@F]", "type e.g. multiform show quiz@mcqa"),
    flags("export_nothing", "export", "multiform export: missing: RUN, --to", "multiform export results --to inspect"),
    flags("new_without_the_file", "new nope.csv", "nope.csv: no such file or folder", "check the name"),
    flags("store_action", "store lst", "store: no 'lst'", "did you mean 'ls'?"),
    flags("formats_action", "formats explan mcqa", "formats: no 'explan'", "did you mean 'explain'?"),
    flags("page", "docs turo", "multiform docs: no page 'turo'", "did you mean 'tour'?"),
    flags("page_unlike_any", "docs zzzz", "multiform docs: no page 'zzzz'", "'multiform docs' lists them"),
    flags("prompt_missing", "formats infer --prompt a.txt", "a.txt: cannot be read: No such file", "a text file"),
    flags("prompt_no_text", "formats infer --prompt a.txt", "a.txt: cannot be read: it is not text", a_DOT_txt=b"\xc8"),
    flags("config_missing", "run --config c.yml", "c.yml: no such file", "task.yaml"),
]

CASES = [*YAML, *KEYS, *FORMATS, *SCORING, *FUNCTIONS, *FIELDS, *DOCUMENTS, *FILES, *TASKS, *FLAGS]


def every(cases: list[Bad]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases])


def test_every_case_has_its_own_name():
    assert len({case.name for case in CASES}) == len(CASES)


@every(CASES)
def test_message_names_the_place_and_the_remedy(folder, case):
    case.write(folder)
    ran = folder.run(*case.argv)
    assert (ran.code, ran.out, len(ran.errors)) == (2, "", 1), ran
    assert "Traceback" not in ran.err
    message = ran.errors[0].removeprefix("error: ")
    assert message.startswith(case.place(folder)), message
    assert [words for words in case.says if words not in message] == [], message


@pytest.mark.long
@every([*YAML, *KEYS, *FORMATS, *SCORING, *FUNCTIONS, *FIELDS, *DOCUMENTS, *FILES])
def test_validate_says_what_run_says(folder, case):
    case.write(folder)
    ran = folder.run(*case.argv)
    checked = folder.run("validate", case.argv[-1])
    assert checked.code == 2
    assert ran.errors[0] in checked.out.splitlines()


@pytest.mark.long
@every([*YAML, *KEYS, *FORMATS, *SCORING, *FUNCTIONS, *FIELDS, *DOCUMENTS, *FILES])
def test_show_says_what_run_says(folder, case):
    case.write(folder)
    ran = folder.run(*case.argv)
    shown = folder.run("show", case.argv[-1], "--doc", "all")
    assert (shown.code, shown.errors) == (2, ran.errors)


@every(ODD)
def test_what_lm_eval_runs_is_a_warning(folder, case):
    case.write(folder)
    for command in (case.argv, ("validate", case.argv[-1]), ("show", case.argv[-1], "--doc", "all")):
        ran = folder.run(*command)
        assert ran.code == 0
        warnings = [line.removeprefix("WARNING: ") for line in ran.err.splitlines() if line.startswith("WARNING")]
        [message] = [warning for warning in warnings if warning.startswith(case.place(folder))]
        assert [words for words in case.says if words not in message] == [], message


def test_an_answer_that_is_no_choice_is_an_error_in_the_first_document(folder):
    folder.rows({**ROW, "answer": 7}, ROW)
    folder.task()
    ran = folder.run(*RUN, "task.yaml")
    assert ran.code == 2
    assert ran.errors[0].startswith("error: task.yaml:7: doc_to_target: doc 0: the answer 7")


def test_nothing_is_written_for_bad_input(folder):
    folder.task("doc_to_text: qestion\n")
    before = sorted(folder.path.rglob("*"))
    folder.run(*RUN, "task.yaml", "--json")
    assert sorted(folder.path.rglob("*")) == before


# Real rows


def test_column_missing_in_a_real_dataset(folder, mirror):
    folder.task(
        "task: arc\ndataset_path: allenai/ai2_arc\ndataset_name: ARC-Easy\ndoc_to_choice: choises\n"
        "doc_to_target: answerKey\n"
    )
    ran = folder.run(*RUN, "task.yaml", "--dataset_mirror", str(mirror))
    assert ran.errors == [
        "error: task.yaml:7: doc_to_choice: doc 0: no column 'choises' in allenai/ai2_arc; did you mean 'choices'?"
    ]


def test_split_missing_in_a_real_dataset(folder, mirror):
    folder.task("dataset_path: allenai/ai2_arc\ndataset_name: ARC-Easy\ntest_split: dev\n")
    ran = folder.run(*RUN, "task.yaml", "--dataset_mirror", str(mirror))
    assert ran.errors == [
        "error: task.yaml:8: test_split: no split 'dev' in allenai/ai2_arc/ARC-Easy; "
        "its splits are: test, train, validation"
    ]


def test_unlabelled_split_of_a_real_dataset(folder, mirror):
    folder.task(
        "dataset_path: baber/piqa\ndoc_to_text: goal\ndoc_to_choice: ['{{sol1}}', '{{sol2}}']\ndoc_to_target: label\n"
    )
    ran = folder.run(*RUN, "task.yaml@cloze", "--dataset_mirror", str(mirror))
    assert ran.code == 2
    assert ran.errors[0].startswith("error: task.yaml:7: doc_to_target: doc 0: the answer")
