"""The hooks of a Python task that load rows, draw examples, make samples and pick answers: an override counts."""

# ruff: noqa: RUF012 - as users write it

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from multiform import BaseTask, ConfigError, DataError, MCStyle, ResponseType, UsageError
from multiform import evaluate as run
from multiform.compat.eval_framework.samples import BaseMetricContext, Message, Role, Sample, extract_context_metric
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    AccuracyLoglikelihood,
    BaseMetric,
)
from multiform.formats.dialects.metric_results import MetricResult
from multiform.forms import Task
from multiform.tasks.python_tasks import task_classes


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    """Four rows to ask and four to show, and no class that another test would find."""
    folder = tmp_path / "sums"
    folder.mkdir()
    for split in ("test", "train"):
        lines = [{"q": f"{split} {i} + 1 =", "a": str(i + 1), "subject": "a column"} for i in range(4)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(task_classes, "_entries", dict(task_classes._entries))


class _Sums(BaseTask[str]):
    DATASET_PATH = "sums"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = [AccuracyCompletion]

    def _get_instruction_text(self, item):
        return f"{item['q']}\n"

    def _get_ground_truth(self, item):
        return item["a"]

    def _get_cue_text(self, item):
        return "Sum:"

    def _get_fewshot_target_text(self, item):
        return f"Sum: {item['a']}"


def contexts(kind, shots=0, **options):
    task = Task.from_config(kind().to_node())
    if shots:
        task.set_num_fewshot(shots)
    requests: list[Any] = [instance.request for instance in task.build_all_requests(**options)]
    return [request.context for request in requests]


def test_the_rows_of_an_own_load_dataset_are_evaluated():
    class Loaded(_Sums):
        NAME = "Loaded"

        def _load_dataset(self, subject):
            rows = self._load_hf_dataset(path=self.DATASET_PATH)
            self.dataset = {"test": list(rows["test"].filter(lambda row: row["a"] > "2")), "train": list(rows["train"])}

    assert contexts(Loaded) == ["test 2 + 1 =\nSum:", "test 3 + 1 =\nSum:"]
    assert "train" in contexts(Loaded, shots=1)[0]


def test_an_own_load_dataset_counts_under_a_format_too():
    class Chosen(_Sums):
        NAME = "Chosen"
        RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

        def _load_dataset(self, subject):
            self.dataset = {"test": [{"q": "own"}]}

        def _get_raw_question(self, item):
            return item["q"]

        def _get_choices(self, item):
            return ["x", "y"]

        def _get_correct_index(self, item):
            return 0

    results = run(model="dummy", tasks=["Chosen@cloze"])
    assert results.forms[0].samples[0].sample.prompt == "Question: own\nAnswer:"


def test_a_load_dataset_that_sets_no_rows_is_one_clear_error():
    class Rowless(_Sums):
        NAME = "Rowless"

        def _load_dataset(self, subject):
            pass

    with pytest.raises(DataError, match=r"_load_dataset did not set self\.dataset"):
        contexts(Rowless)


def test_an_own_choice_of_examples_is_shown():
    class Fixed(_Sums):
        NAME = "Fixed"

        def _sample_fewshot_examples(self, item):
            return [{"q": f"shot {i}", "a": "0"} for i in range(self.num_fewshot or 0)]

    assert contexts(Fixed, shots=2)[3] == "shot 0\nSum: 0\n\nshot 1\nSum: 0\n\ntest 3 + 1 =\nSum:"


def test_an_own_choice_of_examples_sees_rows_and_a_generator_of_its_own():
    class Drawn(_Sums):
        NAME = "Drawn"

        def _sample_fewshot_examples(self, item):
            assert self.rnd is not None
            return self.rnd.sample(list(self.dataset[self.FEWSHOT_SPLIT]), self.num_fewshot or 0)

    drawn = contexts(Drawn, shots=2)
    assert drawn == contexts(Drawn, shots=2)
    assert all(context.count("train") == 2 for context in drawn)
    node: Any = Drawn().to_node()
    task = Task.from_config(node)
    task.set_num_fewshot(2)
    last: Any
    (last,) = task.sample(*next(task.doc_iterator(samples=[3]))).instances
    assert last.request.context == drawn[3]  # whichever documents are asked before it


def test_a_constructor_that_refuses_examples_is_heard():
    class Bare(_Sums):
        NAME = "Bare"

        def __init__(self, num_fewshot=0):
            assert num_fewshot == 0, "no examples here"
            super().__init__(num_fewshot)

    with pytest.raises(ConfigError, match="no examples here"):
        run(model="dummy", tasks=[Bare], num_fewshot=2)


def test_a_number_of_examples_reaches_a_class_whose_constructor_has_none_by_default():
    class Shy(_Sums):
        NAME = "Shy"

        def __init__(self, num_fewshot=0):
            super().__init__(num_fewshot)

    results = run(model="dummy", tasks=[Shy], num_fewshot=2)
    assert results.forms[0].samples[0].sample.prompt.count("train") == 2


def test_messages_of_an_own_instruction_are_turns_of_a_chat():
    class Spoken(_Sums):
        NAME = "Spoken"

        def _get_instruction_messages(self, item):
            said = [(Role.USER, "Ready?"), (Role.ASSISTANT, "Yes."), (Role.USER, item["q"])]
            return [Message(role=role, content=text) for role, text in said]

        def _get_system_prompt_text(self, item):
            return "Add."

    assert contexts(Spoken)[0] == "Add.\n\nReady?Yes.\n\ntest 0 + 1 =Sum:"

    def template(messages, add_generation_prompt):
        return "".join(f"<{m['role']}>{m['content']}" for m in messages) + ("<assistant>" * add_generation_prompt)

    chat = contexts(Spoken, apply_chat_template=True, fewshot_as_multiturn=True, chat_template=template)[0]
    assert chat == "<system>Add.<user>Ready?<assistant>Yes.<user>test 0 + 1 =<assistant>Sum:"


class _Pairs(BaseMetric[Any]):
    """Whether the first of two samples has the more likely completion."""

    NAME = "Pairs"

    def __init__(self):
        self.first: dict[int, float] = {}

    def calculate(self, response):
        (likelihood,) = response.loglikelihoods.values()
        other = self.first.setdefault(response.id // 2, likelihood)
        return [] if response.id % 2 == 0 else self.result(float(other > likelihood))


def test_two_samples_of_one_row_are_two_documents_which_a_metric_may_compare():
    class Halves(_Sums):
        NAME = "Halves"
        RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS
        METRICS = [_Pairs]

        def _create_samples(self, item, index, subject):
            return [
                Sample(
                    id=index + part,
                    subject=subject,
                    messages=[Message(role=Role.USER, content=f"{item['q']} {option}")],
                    ground_truth=str(part == 0),
                    possible_completions=[" is true"],
                )
                for part, option in enumerate((item["a"], "no"))
            ]

    assert contexts(Halves)[:3] == ["test 0 + 1 = 1", "test 0 + 1 = no", "test 1 + 1 = 2"]
    results = run(model="dummy", tasks=[Halves])
    assert len(results.forms[0].samples) == 8
    assert sum("Pairs" in sample.values for sample in results.forms[0].samples) == 4
    assert 0 <= results["Halves"]["Pairs,none"] <= 1


class _Context(BaseMetricContext):
    unit: str


class _InUnits(BaseMetric[Any]):
    """Whether an answer has the unit that the context names, and whether it has one at all."""

    NAME = "In Units"
    KEYS = ["right", "any"]

    def calculate(self, response):
        unit = extract_context_metric(response, _Context).unit
        values = [response.completion.endswith(unit), " " in response.completion]
        return [
            MetricResult(metric_name=name, value=float(value), higher_is_better=True)
            for name, value in zip(self.NAMES, values, strict=True)
        ]


def test_post_processing_context_and_own_metrics_make_the_score():
    class Units(_Sums):
        NAME = "Units"
        METRICS = [_InUnits, AccuracyCompletion]

        def _get_context(self, item):
            return _Context(unit="km" if item["a"] in "12" else "mm")

        def post_process_generated_completion(self, completion_text, sample=None):
            assert sample.messages[-1].content == "Sum:"
            return f"{sample.ground_truth} km"

    results = run(model="dummy", tasks=[Units])
    assert results["Units"]["In Units/right,none"] == 0.5
    assert results["Units"]["In Units/any,none"] == 1.0
    assert results["Units"]["exact_match,none"] == 0.0
    assert results.forms[0].samples[2].filtered == ("3 km",)


def test_own_metrics_of_several_subjects_count_the_same_for_each():
    class Grouped(_Sums):
        NAME = "Grouped"
        SUBJECTS = ["one", "two"]
        METRICS = [_InUnits]

        def _load_dataset(self, subject):
            self.dataset = {"test": [{"q": "1", "a": "1"}] * (3 if subject == "one" else 1)}

        def _get_context(self, item):
            return _Context(unit=item["subject"])

        def post_process_generated_completion(self, completion_text, sample=None):
            return "one"

    results = run(model="dummy", tasks=[Grouped])
    assert results["Grouped_one"]["In Units/right,none"] == 1.0
    assert results["Grouped"]["In Units/right,none"] == 0.5


def test_what_post_processing_leaves_is_compared_as_it_is():
    class Answered(_Sums):
        NAME = "Answered"

        def post_process_generated_completion(self, completion_text, sample=None):
            return sample.ground_truth + (" " if sample.id == 0 else "")

    assert run(model="dummy", tasks=[Answered])["Answered"]["exact_match,none"] == 0.75


def test_a_metric_without_values_says_how_often_and_why(caplog):
    class Broken(BaseMetric[Any]):
        NAME = "Broken"

        def calculate(self, response):
            value = None if response.id else 1.0
            return [MetricResult(metric_name=self.NAME, value=value, higher_is_better=True)]

    class Partly(_Sums):
        NAME = "Partly"
        METRICS = [Broken]

    with caplog.at_level(logging.WARNING, logger="multiform"):
        assert run(model="dummy", tasks=[Partly])["Partly"]["Broken,none"] == 1.0
    assert "Partly: Broken has no value 3 times" in caplog.text


def test_several_values_of_one_document_all_count():
    class Each(BaseMetric[Any]):
        NAME = "Each"

        def calculate(self, response):
            values = [1.0] if response.id == 0 else [0.0, 0.0]
            return [MetricResult(metric_name=self.NAME, value=value, higher_is_better=True) for value in values]

    class Many(_Sums):
        NAME = "Many"
        METRICS = [Each]

    assert run(model="dummy", tasks=[Many])["Many"]["Each,none"] == pytest.approx(1 / 7)


def test_an_aggregation_that_is_no_mean_is_refused_by_name():
    class Best:
        name = "Pass@5"

    class OfFive(BaseMetric[Any]):
        NAME = "Of Five"
        AGGREGATORS = (Best(),)

        def calculate(self, response):
            return self.result(1.0)

    class Five(_Sums):
        NAME = "Five"
        METRICS = [OfFive]

    with pytest.raises(ConfigError, match="metric OfFive cannot be computed: it is aggregated by Pass@5"):
        run(model="dummy", tasks=[Five])


def test_an_answer_without_a_limit_of_its_own_says_where_it_ends(caplog):
    class Endless(_Sums):
        NAME = "Endless"

    class Short(_Sums):
        NAME = "Short"

        def __init__(self, num_fewshot=0):
            super().__init__(num_fewshot)
            self.max_tokens = 5
            self.stop_sequences = ["\n"]

    with caplog.at_level(logging.WARNING, logger="multiform"):
        results = run(model="dummy", tasks=[Short, Endless])
    assert "Endless: completions end after 256 tokens" in caplog.text
    assert "Short: answers end" not in caplog.text
    requests: list[Any] = [form.samples[0].instances[0].request for form in results.forms]
    asked = [request.gen_kwargs for request in requests]
    assert [(one["until"], one["max_gen_toks"]) for one in asked] == [(["\n"], 5), ([], 256)]


def test_names_beside_classes_that_calculate_are_refused():
    class Mixed(_Sums):
        NAME = "Mixed"
        METRICS = [AccuracyCompletion, "f1"]

    with pytest.raises(ConfigError, match="'f1' stands beside classes that calculate"):
        Mixed().to_node()


@pytest.mark.parametrize("name", ["iterate_samples", "generate_completions", "_apply_user_prompt_suffix"])
def test_an_override_that_a_run_never_calls_is_refused_by_name(name):
    kind = type("Refused", (_Sums,), {"NAME": "Refused", name: lambda self, *args: []})
    with pytest.raises(ConfigError, match=f"a run never calls {name}, which the class overrides"):
        kind().to_node()


def test_a_failing_hook_is_named():
    class Failing(_Sums):
        NAME = "Failing"

        def post_process_generated_completion(self, completion_text, sample=None):
            raise KeyError("answer")

    with pytest.raises(DataError, match="Failing: post_process_generated_completion failed: KeyError"):
        run(model="dummy", tasks=[Failing])


def test_a_styled_class_that_overrides_a_sample_hook_is_asked_for_every_sample():
    class Shown(_Sums):
        NAME = "Shown"
        RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS
        METRICS = [AccuracyLoglikelihood]
        TASK_STYLER = MCStyle()
        _get_instruction_text = BaseTask._get_instruction_text
        _get_ground_truth = BaseTask._get_ground_truth
        _get_cue_text = BaseTask._get_cue_text
        _get_fewshot_target_text = BaseTask._get_fewshot_target_text

        def _get_raw_question(self, item):
            return item["q"]

        def _get_choices(self, item):
            return ["x", item["a"]]

        def _get_correct_index(self, item):
            return 1

        def _sample_fewshot_examples(self, item):
            return [{"q": "shot", "a": "0"}]

    assert contexts(Shown, shots=1)[0].startswith("Question: shot\nA. x\nB. 0\nAnswer: B\n\nQuestion: test 0")
    assert "acc,none" in run(model="dummy", tasks=[Shown], num_fewshot=1)["Shown"]


def test_a_subject_takes_the_place_of_a_column_of_that_name():
    class Subjects(_Sums):
        NAME = "Subjects"
        SUBJECTS = [("de", "sums")]

        def _load_dataset(self, subject):
            self.dataset = {"test": [{"q": "1 + 1", "a": "2", "subject": "sums"}]}

        def _get_instruction_text(self, item):
            return f"{item['subject'][0]} {item['q']}"

    assert contexts(Subjects) == ["de 1 + 1Sum:"]


def test_two_subjects_of_one_name_are_refused():
    class Twice(_Sums):
        NAME = "Twice"
        SUBJECTS = ["a b", "a_b"]

    with pytest.raises(ConfigError, match="two SUBJECTS make the same name 'Twice_a_b'"):
        Twice().to_node()


def test_revisions_come_from_a_lock_file(tmp_path):
    lock = tmp_path / "lock.json"
    lock.write_text('{"sums": "abc123"}', encoding="utf-8")

    class Pinned(_Sums):
        NAME = "Pinned"
        REVISION_LOCKFILE = lock

    assert Pinned().hf_revision == "abc123"
    node: Any = Pinned().to_node()
    assert node.dataset_kwargs == {"revision": "abc123"}
    assert Pinned.with_overwrite(0, custom_hf_revision="main").hf_revision == "main"
    lock.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"lock\.json does not pin 'sums'"):
        Pinned()


def test_samples_can_be_looked_at_without_a_run():
    class Looked(_Sums):
        NAME = "Looked"

    task = Looked.with_overwrite(1, custom_subjects=None)
    first, second = task.iterate_samples(2)
    assert (first.id, second.id) == (0, 1)
    assert [message.role for message in first.messages] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert first.messages[2].content.endswith("+ 1 =\n")
    assert str(first.ground_truth) in "1234"


def test_a_task_is_made_with_some_of_its_subjects():
    class Several(_Sums):
        NAME = "Several"
        SUBJECTS = ["one", ("de", "two")]

    assert Several.with_overwrite(0, custom_subjects=["de,two"]).SUBJECTS == [("de", "two")]
    with pytest.raises(UsageError, match="Several: no subject 'tow'"):
        Several.with_overwrite(0, custom_subjects=["tow"])
