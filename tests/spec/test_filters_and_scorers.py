"""Filter pipelines, their steps and scorers, by what they make of a model's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from multiform import ConfigError, evaluate, register_filter, register_scorer
from multiform.results import sample_lines
from multiform.scoring.scorers import Scorer

NUMBER = {"function": "regex", "regex_pattern": r"(\d+)"}
FIRST = {"function": "take_first"}


@pytest.fixture
def sums(writing):
    """Makes a task that asks for a number."""
    rows = [{"q": "2 + 2?", "a": "4"}]
    return lambda **changes: writing(
        custom_dataset=lambda **kwargs: {"test": rows}, doc_to_text="q", doc_to_target="a", **changes
    )


def read(task, model):
    """The scores, and what the filters left of the answers."""
    results = evaluate(tasks=[task], model=model)
    return results["facts"], {line["filter"]: line["filtered_resps"] for line in sample_lines(results.forms[0])}


@pytest.mark.covers("FilterPipeline.name")
def test_results_and_samples_carry_the_name_of_the_pipeline(sums, saying):
    scores, kept = read(sums(filter_list=[{"name": "number", "filter": [NUMBER, FIRST]}]), saying("It is 4."))
    assert scores["exact_match,number"] == 1.0
    assert kept == {"number": ["4"]}


@pytest.mark.covers("FilterPipeline.filter")
def test_steps_work_on_what_the_step_before_gives(sums, saying):
    chain: list[dict[str, Any]] = [{"function": "lowercase"}, {"function": "regex", "regex_pattern": "four"}]
    chain += [{"function": "map", "mapping_dict": {"four": "4"}}, FIRST]
    scores, kept = read(sums(filter_list=[{"name": "words", "filter": chain}]), saying("FOUR!"))
    assert (scores["exact_match,words"], kept) == (1.0, {"words": ["4"]})


@pytest.mark.covers("FilterPipeline.metric_list")
def test_a_pipeline_has_its_own_metrics_or_the_tasks(sums, saying):
    loose = {"name": "loose", "filter": [FIRST], "metric_list": [{"metric": "chrf"}]}
    strict = {"name": "strict", "filter": [NUMBER, FIRST]}
    scores, _ = read(sums(filter_list=[loose, strict]), saying("It is 4."))
    assert {key for key in scores if "," in key and "stderr" not in key} == {"chrf,loose", "exact_match,strict"}


@pytest.mark.covers("FilterPipeline.filter")
def test_without_pipelines_the_first_answer_counts(sums, saying):
    scores, kept = read(sums(repeats=2), saying("4", "5"))
    assert scores["exact_match,none"] == 1.0
    assert kept["none"][0] in ("4", ["4", "5"])


@pytest.mark.covers("FilterStep.function")
@pytest.mark.parametrize(
    ("step", "texts", "left"),
    [
        ({"function": "take_first"}, ["3", "4"], ["3"]),
        ({"function": "majority_vote"}, ["3", "4", "4"], ["4"]),
        ({"function": "remove_whitespace"}, ["  4"], ["4"]),
        ({"function": "uppercase"}, ["four"], ["FOUR"]),
        ({"function": "regex", "regex_pattern": "(\\d)", "group_select": -1}, ["3 and 4"], ["4"]),
        ({"function": "regex", "regex_pattern": "(\\d)"}, ["none"], ["[invalid]"]),
    ],
    ids=lambda value: value["function"] if isinstance(value, dict) else "",
)
def test_registered_filters(sums, saying, step, texts, left):
    task = sums(repeats=len(texts), filter_list=[{"name": "f", "filter": [step, FIRST]}])
    assert read(task, saying(*texts))[1] == {"f": left}


@pytest.mark.covers("FilterStep.function")
def test_take_first_k_and_majority_vote_make_a_vote_of_some_repeats(sums, saying):
    def vote(k):
        steps = [{"function": "take_first_k", "k": k}, {"function": "majority_vote"}, FIRST]
        return {"name": f"maj@{k}", "filter": steps}

    scores, _ = read(sums(repeats=5, filter_list=[vote(1), vote(5)]), saying("3", "4", "4", "5", "4"))
    assert (scores["exact_match,maj@1"], scores["exact_match,maj@5"]) == (0.0, 1.0)


@pytest.mark.covers("FilterStep.function")
def test_a_filter_of_ones_own_is_registered_or_named_as_a_function(sums, saying):
    @register_filter("last_word")
    class LastWord:
        def apply(self, resps, docs):
            return [[text.split()[-1] for text in texts] for texts in resps]

    def first_word(resps, docs):
        return [[text.split()[0] for text in texts] for texts in resps]

    pipelines = [
        {"name": "last", "filter": [{"function": "last_word"}, FIRST]},
        {"name": "first", "filter": [{"function": first_word}, FIRST]},
    ]
    assert read(sums(filter_list=pipelines), saying("so 4"))[1] == {"last": ["4"], "first": ["so"]}


@pytest.mark.covers("FilterStep.kwargs")
def test_kwargs_and_further_keys_are_arguments_of_the_filter(sums, saying):
    nested = {"function": "regex", "kwargs": {"regex_pattern": "=(.*)", "fallback": "?"}}
    flat = {"function": "regex", "regex_pattern": "=(.*)", "fallback": "?"}
    pipelines = [{"name": "nested", "filter": [nested, FIRST]}, {"name": "flat", "filter": [flat, FIRST]}]
    assert read(sums(filter_list=pipelines), saying("2 + 2 = 4"))[1] == {"nested": ["4"], "flat": ["4"]}
    assert read(sums(filter_list=pipelines), saying("four"))[1] == {"nested": ["?"], "flat": ["?"]}


@pytest.mark.covers("FilterStep.kwargs")
def test_a_custom_filter_is_a_function_of_answers_and_documents(sums, saying):
    def keep(resps, docs):
        return [[doc["q"] + text for text in texts] for texts, doc in zip(resps, docs, strict=True)]

    step = {"function": "custom", "kwargs": {"filter_fn": keep}}
    assert read(sums(filter_list=[{"name": "c", "filter": [step, FIRST]}]), saying(" 4"))[1] == {"c": ["2 + 2? 4"]}


@pytest.mark.covers("FilterStep.kwargs")
def test_further_kwargs_of_a_custom_filter_reach_its_function(sums, saying):
    def keep(resps, docs, ending):
        return [[text + ending for text in texts] for texts in resps]

    step = {"function": "custom", "kwargs": {"filter_fn": keep, "ending": "!"}}
    assert read(sums(filter_list=[{"name": "c", "filter": [step, FIRST]}]), saying("4"))[1] == {"c": ["4!"]}


@pytest.mark.covers("FilterStep.function")
def test_an_unknown_filter_is_an_error_with_the_nearest_name(sums):
    with pytest.raises(ConfigError, match=r"filter_list\.0.*unknown filter 'regexp'; did you mean 'regex'"):
        sums(filter_list=[{"name": "f", "filter": [{"function": "regexp"}]}])


# Scorers


@pytest.mark.covers("ScorerConfig.type")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("first_token", "4. That is all."),
        ("regex", "so #### 4"),
        ("choice_match", "4"),
        ("final_answer", "I add. The final answer is 4."),
    ],
)
def test_a_scorer_reads_the_answer_in_its_way(sums, saying, kind, text):
    assert read(sums(scorer={"type": kind}), saying(text))[0]["exact_match,none"] == 1.0


@pytest.mark.covers("ScorerConfig.type")
def test_choice_match_reads_labels_and_choices_under_a_format(choosing, saying):
    results = evaluate(tasks=[choosing(formats="generate")], model=saying(" B. yes"))
    assert results["facts"]["exact_match,none"] == 0.5
    assert results["facts"]["invalid,none"] == 0.0


@pytest.mark.covers("ScorerConfig.kwargs")
def test_kwargs_are_the_fields_of_the_scorer(sums, saying):
    task = sums(scorer={"type": "regex", "kwargs": {"regex_pattern": r"<(\d)>"}})
    assert read(task, saying("Not 5 but <4>"))[0]["exact_match,none"] == 1.0
    with pytest.raises(ConfigError, match=r"scorer: .*pattern"):
        sums(scorer={"type": "regex", "kwargs": {"pattern": "x"}})


@pytest.mark.covers("ScorerConfig.type", "ScorerConfig.kwargs")
@pytest.mark.parametrize(("verdict", "score"), [("CORRECT", 1.0), ("INCORRECT", 0.0)])
def test_another_model_judges_and_its_words_are_kept(sums, saying, verdict, score):
    task = sums(scorer={"type": "ai_judge", "kwargs": {"judge_model": "dummy"}})
    results = evaluate(tasks=[task], model=saying("four"), judge_args={"text": f"I see. Verdict: {verdict}"})
    assert results["facts"]["judge,none"] == score
    assert f"I see. Verdict: {verdict}" in str(list(sample_lines(results.forms[0])))


@pytest.mark.covers("ScorerConfig.type")
def test_a_scorer_may_be_no_more_than_default_filters_and_metrics(sums, saying):
    @register_scorer("numbers")
    @dataclass(kw_only=True, eq=False)
    class Numbers(Scorer):
        default_metric_cfg: ClassVar[Sequence[str]] = ("exact_match",)
        default_filter_cfg: ClassVar = (NUMBER, FIRST)

    assert read(sums(scorer="numbers"), saying("It is 4."))[0]["exact_match,none"] == 1.0


@pytest.mark.covers("ScorerConfig.kwargs")
def test_a_scorer_may_score_one_answer(sums, saying):
    @register_scorer("close_enough")
    @dataclass(kw_only=True, eq=False)
    class CloseEnough(Scorer):
        within: float = 0.0

        def score(self, outcome):
            return {"close": float(abs(float(outcome.prediction) - float(outcome.references[0])) <= self.within)}

    def close(**kwargs):
        return read(sums(scorer={"type": "close_enough", "kwargs": kwargs}), saying("5"))[0]["close,none"]

    assert (close(), close(within=1.5)) == (0.0, 1.0)


@pytest.mark.covers("ScorerConfig.type")
@pytest.mark.usefixtures("share_scorer")
def test_a_scorer_may_score_all_answers_together(writing, saying):
    assert read(writing(scorer="share"), saying("no"))[0]["share,none"] == 0.25


@pytest.mark.covers("ScorerConfig.type")
def test_an_unknown_scorer_is_an_error_with_the_nearest_name(sums):
    with pytest.raises(ConfigError, match=r"facts: scorer: unknown scorer 'first_tokn'; did you mean 'first_token'"):
        sums(scorer="first_tokn")


def test_a_function_may_be_named_by_text_in_the_arguments_of_a_filter(write, saying):
    folder = write({
        "t.yaml": """\
task: t
dataset_path: rows.jsonl
test_split: test
doc_to_text: q
doc_to_target: a
filter_list:
  - name: last
    filter:
      - function: custom
        kwargs: {filter_fn: "!function utils.last_word"}
""",
        "utils.py": "def last_word(resps, docs):\n    return [[text.split()[-1] for text in row] for row in resps]\n",
        "rows.jsonl": '{"q": "Q", "a": "yes"}\n',
    })  # fmt: skip
    assert evaluate(tasks=str(folder / "t.yaml"), model=saying("I say yes"))["t"]["exact_match,last"] == 1.0
    text = (folder / "t.yaml").read_text().replace("last_word", "lost_word")
    (folder / "t.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"t.yaml:6: filter_list: !function utils.lost_word: no 'lost_word' in utils"):
        evaluate(tasks=str(folder / "t.yaml"), model=saying("I say yes"))
