"""A bad value of any field is one error, which names the field and says what to do."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields

import pytest

from multiform import ConfigError, DataError, FewshotConfig, TaskConfig, evaluate
from multiform.forms import Task


def fails(*args, **kwargs):
    raise ValueError("on purpose")


#: Bad values of each field, each with what else the task needs for the value to matter, and words of the message.
TASK = {
    "task": [(5, {}, "expected a string, got 5"), ("", {}, "name"), ("@mcqa", {}, "no name")],
    "task_alias": [(["A"], {}, "expected a string or null")],
    "formats": [
        ("mqca", {}, "unknown format 'mqca'; did you mean 'mcqa'"),
        (["mcqa"], {}, "expected a string"),
        ({"type": "mcqa", "lables": "letters"}, {}, "unknown key 'lables'"),
        ({"type": "mcqa", "choice_labels": 3}, {}, "choice_labels"),
        ("mcqa", {"doc_to_choice": None}, "needs choices"),
    ],
    "output_type": [("multiple", {}, "expected one of multiple_choice, generate_until"), (None, {}, "got null")],
    "tag": [(3, {}, "expected a list"), ([1], {}, "expected a string")],
    "custom_dataset": [
        ("rows.jsonl", {}, "expected a function"),
        (fails, {}, "custom_dataset failed: ValueError: on purpose"),
        (lambda **kwargs: [1], {}, "returned list, not a mapping of splits"),
        (lambda **kwargs: {"test": [1]}, {}, "the rows are not mappings"),
    ],
    "dataset_path": [
        (3, {}, "expected a string or null, got 3"),
        ("./nowhere", {"custom_dataset": None}, "no such file or folder"),
        ("json", {"custom_dataset": None}, "no file is named"),
    ],
    "dataset_name": [
        ({"a": 1}, {}, "expected a string or null"),
        ("nowhere", {"custom_dataset": None, "dataset_path": "."}, "no folder 'nowhere'"),
    ],
    "dataset_kwargs": [
        ("rows.jsonl", {}, "expected a mapping"),
        ({"data_files": "x.jsonl"}, {"custom_dataset": None, "dataset_path": "json"}, "no data file 'x.jsonl'"),
    ],
    "training_split": [
        (1, {}, "expected a string or null, got 1"),
        ("trian", {"fewshot_split": None, "num_fewshot": 1}, "no split 'trian'.*did you mean 'train'"),
    ],
    "validation_split": [
        (True, {}, "expected a string or null, got true"),
        ("dev", {"test_split": None}, "no split 'dev'.*its splits are: test, train"),
    ],
    "test_split": [
        (["test"], {}, "expected a string or null"),
        ("tset", {}, "no split 'tset'.*did you mean 'test'"),
        (None, {}, "names no split to evaluate; set test_split or validation_split"),
    ],
    "fewshot_split": [
        (0, {}, "expected a string or null, got 0"),
        ("dev", {"num_fewshot": 1}, "no split 'dev'"),
    ],
    "process_docs": [
        ("utils.f", {}, "expected a function"),
        (fails, {}, "process_docs failed: ValueError: on purpose"),
        (lambda docs: None, {}, "process_docs"),
        (lambda docs: [], {}, "no documents .* check the data file and process_docs"),
    ],
    "description": [
        (3, {}, "expected a string"),
        ("{{ question", {}, "description"),
        ("{{ nothing }}", {}, "nothing"),
        (fails, {}, "on purpose"),
    ],
    "doc_to_text": [
        ({"a": 1}, {}, "expected"),
        (None, {}, "the task has no doc_to_text"),
        ("qestion", {}, "no column 'qestion'.*did you mean 'question'"),
        ("{{ question", {}, "doc_to_text"),
        ("{{ qestion }}", {}, "qestion"),
        (lambda doc: None, {}, "the question is null"),
        (lambda doc: ["a", "b"], {}, "expected one question, got .*multiple_inputs"),
        (fails, {}, "on purpose"),
    ],
    "doc_to_choice": [
        (3, {}, "expected"),
        ("choises", {}, "no column 'choises'.*did you mean 'choices'"),
        ("question", {}, "expected a list of choices"),
        ([], {}, "the list of choices is empty"),
        ([["no"]], {}, "a choice is"),
        (None, {}, "the task has no doc_to_choice"),
        (fails, {}, "on purpose"),
    ],
    "doc_to_target": [
        ({"a": 1}, {}, "expected"),
        ("anwser", {}, "no column 'anwser'.*did you mean 'answer'"),
        ("{{answer + 7}}", {}, "does not resolve"),
        ("{{question}}", {}, "does not resolve"),
        (None, {}, "the task has no doc_to_target"),
        (fails, {}, "on purpose"),
    ],
    "gen_prefix": [(3, {}, "expected a string or null"), ("{{ x", {}, "gen_prefix"), ("{{ nothing }}", {}, "nothing")],
    **{
        field: [
            (3, {}, "expected"),
            (column, {}, f"no column '{column}'"),
            ("question", {}, field),
            (fails, {}, "on purpose"),
        ]
        for field, column in (("doc_to_image", "picture"), ("doc_to_audio", "sound"))
    },
    "process_results": [
        ("utils.f", {}, "expected a function"),
        (fails, {}, "process_results failed: ValueError: on purpose"),
        (lambda doc, results: 1.0, {}, "returned float, not a mapping"),
    ],
    "target_delimiter": [(None, {}, "expected a string, got null"), (1, {}, "expected a string, got 1")],
    "fewshot_delimiter": [(None, {}, "expected a string, got null"), (["\n"], {}, "expected a string")],
    "fewshot_config": [
        ("first_n", {}, "expected a mapping or null, got 'first_n'; write e.g. fewshot_config"),
        ({"smapler": "first_n"}, {}, "unknown key 'smapler'.*did you mean 'sampler'"),
    ],
    "num_fewshot": [
        ("five", {}, "expected a whole number or null, got 'five'"),
        (-1, {}, "expected 0 or more, got -1"),
        (2.5, {}, "expected a whole number"),
        (True, {}, "expected a whole number"),
        (99, {}, "99 few-shot examples requested but only 6"),
    ],
    "generation_kwargs": [
        ("greedy", {"output_type": "generate_until"}, "expected a mapping"),
        ({"max_gen_toks": 0}, {"output_type": "generate_until"}, "max_gen_toks is 0; give a whole number"),
        ({"temperature": -1}, {"output_type": "generate_until"}, "temperature is -1"),
        ({"until": 3}, {"output_type": "generate_until"}, "until is 3"),
        ({"until": [""]}, {"output_type": "generate_until"}, "none of them empty"),
        ({"do_sample": "maybe"}, {"output_type": "generate_until"}, "do_sample"),
    ],
    "metric_list": [
        ("acc", {}, "expected a list"),
        ([{"aggregation": "mean"}], {}, "missing key 'metric'"),
        ([{"metric": "acuracy"}], {}, "unknown metric 'acuracy'"),
        ([{"metric": "acc", "aggregation": "men"}], {}, "unknown aggregation 'men'; did you mean 'mean'"),
        ([{"metric": "acc", "reduction": "frist"}], {}, "unknown reduction 'frist'"),
        ([{"metric": "acc", "higher_is_better": "up"}], {}, "higher_is_better"),
        ([{"metric": "acc", "kwargs": 3}], {}, "kwargs"),
        ([{"metric": "bleu"}], {}, "does not fit output_type multiple_choice"),
    ],
    "filter_list": [
        ("regex", {}, "expected a list"),
        ([{"filter": []}], {}, "missing key 'name'"),
        ([{"name": "a"}], {}, "missing key 'filter'"),
        ([{"name": "a", "filter": [{"function": "regx"}]}], {}, "unknown filter 'regx'"),
        ([{"name": "a", "filter": [{"function": "regex", "regex_pattern": "("}]}], {}, "bad regular expression"),
        ([{"name": "a", "filter": [{"function": "take_first", "k": 1}]}], {}, "take_first"),
        ([{"name": "a", "filter": [{"kwargs": {}}]}], {}, "missing key 'function'"),
    ],
    "scorer": [
        (3, {}, "expected"),
        ("nobody", {"output_type": "generate_until"}, "unknown scorer 'nobody'"),
        ({"kwargs": {}}, {"output_type": "generate_until"}, "missing key 'type'"),
        (
            {"type": "regex", "kwargs": {"regex_pattern": "("}},
            {"output_type": "generate_until"},
            "bad regular expression",
        ),
        ({"type": "regex", "kwargs": {"nothing": 1}}, {"output_type": "generate_until"}, "nothing"),
    ],
    "repeats": [(0, {}, "expected 1 or more, got 0"), ("two", {}, "expected a whole number"), (None, {}, "got null")],
    "unsafe_code": [("yes", {}, "expected true or false, got 'yes'"), (None, {}, "got null")],
    "use_prompt": [
        (3, {}, "expected a string or null, got 3"),
        ("short", {}, "expected library:prompt, got 'short'"),
        ("nowhere.yaml:short", {}, "no such file"),
        ("promptsource:short", {"dataset_path": "org/x"}, "promptsource"),
    ],
    "multiple_inputs": [
        ("yes", {}, "expected true or false, got 'yes'"),
        (True, {}, "multiple_inputs needs a list of inputs, got 'Can fish fly\\?'"),
        (True, {"formats": "cloze"}, "a format lays out one question"),
    ],
    "multiple_targets": [(1, {}, "expected true or false, got 1")],
    "should_decontaminate": [("no", {}, "expected true or false, got 'no'")],
    "doc_to_decontamination_query": [
        (3, {}, "expected a string"),
        ("{{ nothing }}", {"should_decontaminate": True}, "nothing"),
        (fails, {"should_decontaminate": True}, "on purpose"),
    ],
    "metadata": [("1.0", {}, "expected a mapping, got '1.0'; write e.g. metadata"), ([1], {}, "expected a mapping")],
}

SHOTS = {
    "sampler": [(3, "expected a string, got 3"), ("frist_n", "unknown sampler 'frist_n'; did you mean 'first_n'")],
    "split": [(3, "expected a string or null, got 3"), ("trian", "no split 'trian'.*did you mean 'train'")],
    "process_docs": [("utils.f", "expected a function"), (fails, "process_docs failed: ValueError: on purpose")],
    "fewshot_indices": [
        ("0,1", "expected a list or null"),
        ([0, "b"], "expected"),
        ([99], "no document 99"),
    ],
    "samples": [
        ("rows.jsonl", "expected a list"),
        ([1], "expected"),
        (lambda: 3, "returned int, not a list of documents"),
        (fails, "on purpose"),
    ],
    "doc_to_text": [
        ({"a": 1}, "expected"),
        ("qestion", "no column 'qestion'"),
        ("{{ q", "doc_to_text"),
        (fails, "on purpose"),
    ],
    "doc_to_choice": [(3, "expected"), ("question", "expected a list of choices"), (fails, "on purpose")],
    "doc_to_target": [({"a": 1}, "expected"), ("{{answer + 7}}", "is not between 0 and 1"), (fails, "on purpose")],
    "gen_prefix": [(3, "expected a string or null"), ("{{ nothing }}", "nothing"), ("{{ x", "gen_prefix")],
    "fewshot_delimiter": [(3, "expected a string or null, got 3")],
    "target_delimiter": [(["="], "expected a string or null")],
}


def rows(table):
    return [
        pytest.param(name, *case, id=f"{name}-{n}") for name, cases in table.items() for n, case in enumerate(cases)
    ]


def run(given, corpus):
    """All that shows a mistake: the configuration, the prompts, and the scores."""
    evaluate(tasks=[Task.from_config(given)], model="dummy", limit=1, decontamination_corpus=[corpus])


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """An empty corpus, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROMPTSOURCE_TEMPLATES", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "corpus.txt").write_text("")
    return tmp_path / "corpus.txt"


@pytest.mark.parametrize(("name", "value", "others", "words"), rows(TASK))
def test_a_bad_value_of_a_task_field_is_one_error_that_names_it(fields, corpus, name, value, others, words):
    with pytest.raises((ConfigError, DataError), match=words) as caught:
        run({**fields, **others, name: value}, corpus)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "value", "words"), rows(SHOTS))
def test_a_bad_value_of_a_fewshot_field_is_one_error_that_names_it(fields, corpus, name, value, words):
    shots = {"sampler": "first_n", **({"split": None} if name == "samples" else {}), name: value}
    with pytest.raises((ConfigError, DataError), match=words) as caught:
        run({**fields, "num_fewshot": 1, "fewshot_config": shots}, corpus)
    assert name in str(caught.value)


def test_a_bad_item_of_a_list_is_named(fields):
    with pytest.raises(ConfigError, match=r"fewshot_config\.fewshot_indices\.1: expected a whole number, got 'b'"):
        Task.from_config({**fields, "fewshot_config": {"fewshot_indices": [0, "b"]}})


@pytest.mark.parametrize(("table", "config"), [(TASK, TaskConfig), (SHOTS, FewshotConfig)])
def test_every_field_has_a_bad_value_in_the_table(coverage, table, config):
    fields = {field.name for field in dataclass_fields(config) if not field.name.startswith("_")}
    assert set(table) == fields & set(coverage.NAMES[config.__name__])


@pytest.mark.parametrize("config", [TaskConfig, FewshotConfig])
def test_an_unknown_field_is_an_error_with_the_nearest_name(fields, config):
    with pytest.raises(ConfigError, match=r"unknown key 'doc_to_txt' .*did you mean 'doc_to_text'"):
        config.from_dict({"task": "t", "doc_to_txt": "q"} if config is TaskConfig else {"doc_to_txt": "q"})
