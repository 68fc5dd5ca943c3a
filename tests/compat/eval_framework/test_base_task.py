"""Python tasks: data access, stylers, hooks, subjects, and how they run."""

# ruff: noqa: RUF012 - as users write it

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from multiform import BaseTask, BPBStyle, ClozeStyle, ConfigError, MCStyle, TaskManager
from multiform import evaluate as run
from multiform.formats.dialects.metric_classes import AccuracyLoglikelihood, BitsPerByteLoglikelihood
from multiform.formats.dialects.styler import MCCompletionStyle, ResponseType, TaskStyler
from multiform.forms import Task
from multiform.requests import GenerationRequest, LoglikelihoodRequest
from multiform.tasks.group import Group
from multiform.tasks.python_tasks import task_classes


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    """Three rows for each of two subjects, below a folder of the dataset's name."""
    for subject in ("my_subject", "other"):
        folder = tmp_path / "my" / "dataset" / subject
        folder.mkdir(parents=True)
        for split in ("test", "train"):
            lines = [
                f'{{"question": "{subject} {split} {i}?", "choices": ["x", "y", "z"], "answer_idx": {i}}}\n'
                for i in range(3)
            ]
            (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(task_classes, "_entries", {**task_classes._entries, **DEFINED})


class _OneSubject(BaseTask[str]):
    DATASET_PATH = "my/dataset"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    SUBJECTS = ["my_subject"]


class MyTask(_OneSubject):
    NAME = "MyTask"
    PERTURBATION_UNMODIFIABLE_WORDS = ["Question"]
    TASK_STYLER: ClassVar[TaskStyler] = ClozeStyle(question_prefix="Question: ", cue_text="Answer:")

    def _get_raw_question(self, item):
        return item["question"]

    def _get_choices(self, item):
        return item["choices"]

    def _get_correct_index(self, item):
        return item["answer_idx"]


def requests(task, doc=0, shots=0, label=None):
    made = Task.from_config(task.to_node(label))
    made.set_num_fewshot(shots)
    return [one.request for one in made.sample(doc, made.eval_docs[doc]).instances]


def test_the_example_of_the_documentation_asks_what_it_says():
    prompt = "Question: my_subject test 1?\nAnswer:"
    assert requests(MyTask(), 1) == [LoglikelihoodRequest(prompt, f" {choice}") for choice in "xyz"]


def test_examples_stand_before_the_question_as_cue_and_answer():
    context = requests(MyTask(), shots=1)[0].context
    first, second = context.split("\n\n")
    assert first.startswith("Question: my_subject train ")
    assert first[-len("\nAnswer: x") :][:-1] == "\nAnswer: "
    assert second == "Question: my_subject test 0?\nAnswer:"


def test_response_type_and_metrics_come_from_the_styler():
    assert MyTask.RESPONSE_TYPE is MyTask().RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS
    assert MyTask.METRICS == MyTask().get_metrics() == ClozeStyle.metrics
    assert MyTask().get_metadata()["task_style"] == "cloze"
    assert MyTask().get_metadata()["metrics"][0] == AccuracyLoglikelihood.NAME


def test_a_class_with_a_name_is_found_by_it():
    assert TaskManager().load("MyTask")[0].base_name == "MyTask"
    assert [c.form_name for c in TaskManager().load("MyTask@mcqa+MCStyle")] == ["MyTask@mcqa", "MyTask@MCStyle"]


class Lettered(MyTask):
    NAME = "Lettered"
    TASK_STYLER = MCStyle(space_prefixed_labels=True)


class Written(MyTask):
    NAME = "Written"
    TASK_STYLER = MCCompletionStyle()


class Bits(MyTask):
    NAME = "Bits"
    TASK_STYLER = BPBStyle()


def test_variants_differ_in_their_styler_alone():
    lettered = requests(Lettered(), 1)
    assert lettered[0].context == "Question: my_subject test 1?\n A. x\n B. y\n C. z\nAnswer:"
    assert [request.continuation for request in lettered] == [" A", " B", " C"]
    assert requests(Bits(), 1) == [LoglikelihoodRequest("Question: my_subject test 1?\nAnswer:", " y")]
    (written,) = requests(Written(), 1)
    assert isinstance(written, GenerationRequest)
    assert written.context == "Question: my_subject test 1?\nA. x\nB. y\nC. z\nAnswer:"
    assert requests(Written(), 1, shots=1)[0].context.split("\n\n")[0][-1] in "xyz"


def test_all_of_them_run_from_python_as_classes_and_objects():
    results = run(model="dummy", tasks=[MyTask, Lettered(), Bits, Written(num_fewshot=1), "MyTask@mcqa"])
    assert set(results) == {"MyTask", "Lettered", "Bits", "Written", "MyTask@mcqa"}
    assert {"acc,none", "acc_norm_full,none", "bits_per_byte_mean,none"} <= set(results["Lettered"])
    assert set(results["Bits"]) >= {"bits_per_byte_mean,none"}
    assert "exact_match,none" in results["Written"]


class Both(MyTask):
    NAME = "Both"
    SUBJECTS = ["my_subject", "other"]


def test_several_subjects_are_a_group_in_which_each_counts_the_same():
    node = Both().to_node()
    assert isinstance(node, Group)
    assert [task.task for task in node.tasks()] == ["Both_my_subject", "Both_other"]
    results = run(model="dummy", tasks=[Both])
    assert set(results) == {"Both", "Both_my_subject", "Both_other"}
    mean = (results["Both_my_subject"]["acc,none"] + results["Both_other"]["acc,none"]) / 2
    assert results["Both"]["acc,none"] == pytest.approx(mean)


def test_a_group_under_another_format_is_aggregated_by_its_metrics():
    results = run(model="dummy", tasks=["Both@bpb"])
    assert "bits_per_byte,none" in results["Both@bpb"]


class Cued(MyTask):
    NAME = "Cued"
    TASK_STYLER = MCStyle()

    def _get_cue_text(self, item):
        return f"So ({item['subject']}):"

    def _get_initial_prompt_text(self, item):
        return "Answer these."


def test_one_hook_may_be_overridden_and_the_others_stay():
    asked = requests(Cued(), 1)
    assert asked[0].context == "Answer these.\n\nQuestion: my_subject test 1?\nA. x\nB. y\nC. z\nSo (my_subject):"
    assert [request.continuation for request in asked] == [" A", " B", " C"]
    shown = requests(Cued(), 1, shots=1)[0].context
    assert shown.startswith("Answer these.\n\nQuestion: my_subject train ")
    assert run(model="dummy", tasks=[Cued])["Cued"]["acc,none"] <= 1


def test_an_overridden_task_still_runs_under_a_format():
    assert requests(Cued(), 1, label="cloze")[0].context == "Question: my_subject test 1?\nAnswer:"


class Titled(ClozeStyle):
    def get_question_text(self, raw_question):
        return f"[{raw_question}]"


class Overridden(MyTask):
    NAME = "Overridden"
    TASK_STYLER = Titled()


def test_an_overridden_styler_is_asked_for_every_prompt():
    assert requests(Overridden())[0].context == "[my_subject test 0?]\nAnswer:"


class ByHand(_OneSubject):
    NAME = "ByHand"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = ["exact_match"]

    def _get_instruction_text(self, item):
        return f"{item['question']}\n"

    def _get_ground_truth(self, item):
        return item["choices"][item["answer_idx"]]


def test_a_task_without_a_styler_may_write_everything_itself():
    (asked,) = requests(ByHand(), 1)
    assert asked.context == "my_subject test 1?"  # white space at the end of a prompt goes
    assert run(model="dummy", tasks=[ByHand], num_fewshot=1)["ByHand"]["exact_match,none"] <= 1


def test_perturbations_leave_the_protected_words_of_the_class_alone():
    class Loud(Lettered):
        NAME = "Loud"
        PERTURBATION_UNMODIFIABLE_WORDS = ["test"]

    results = run(model="dummy", tasks=[Loud, Cued], perturbation={"type": "uppercase"})
    contexts = [form.samples[0].sample.prompt for form in results.forms]
    assert "Question: my_SUBJECT".lower() in contexts[0].lower()
    assert "MY_SUBJECT test 0?\n A. x" in contexts[0]
    assert "Question: MY_SUBJECT TEST 0?\nA. x" in contexts[1]


def test_a_class_can_say_whatever_a_task_file_can():
    class Configured(MyTask):
        NAME = "Configured"
        CONFIG = {"metadata": {"version": 3}, "num_fewshot": 2}

    config: Any = Configured().to_node()
    assert config.metadata == {"version": 3}
    assert config.num_fewshot == 2


def test_a_styler_without_data_access_is_one_clear_error():
    class Bare(BaseTask[str]):
        NAME = "Bare"
        DATASET_PATH = "my/dataset"
        SAMPLE_SPLIT = "test"
        TASK_STYLER = MCStyle()

        def _get_raw_question(self, item):
            return ""

    with pytest.raises(ConfigError, match="Bare: a TASK_STYLER needs _get_choices, which the class does not have"):
        Bare().to_node()


def test_a_subject_that_the_table_shows_can_be_asked_for_by_that_name():
    assert set(run(model="dummy", tasks=["Both_other"])) == {"Both_other"}
    assert set(run(model="dummy", tasks=["Both_other@mcqa"])) == {"Both_other@mcqa"}


def test_a_class_for_a_styler_is_one_clear_error():
    class Classy(MyTask):
        NAME = "Classy"
        TASK_STYLER = MCStyle  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"not a styler; give an object, e\.g\. TASK_STYLER = MCStyle"):
        Classy().to_node()


def test_metrics_may_be_given_by_the_class():
    class Measured(MyTask):
        NAME = "Measured"
        METRICS = [BitsPerByteLoglikelihood]

        def _get_cue_text(self, item):
            return "A:"

    (asked,) = requests(Measured(), 1)
    assert asked.continuation == " y"


#: The classes of this file, which no other test is to find.
DEFINED = {name: task_classes._entries.pop(name) for name in list(task_classes) if name in
           ("MyTask", "Lettered", "Bits", "Written", "Both", "Cued", "Overridden", "ByHand")}  # fmt: skip


def test_the_hooks_of_our_own_classes_keep_their_place_in_identities():
    class Partly(BaseTask[str]):
        NAME = "partly"
        DATASET_PATH = "d"
        SAMPLE_SPLIT = "test"
        TASK_STYLER = MCStyle()

        def _get_instruction_text(self, item):
            return item["q"]

        def _get_raw_question(self, item):
            return item["q"]

        def _get_choices(self, item):
            return item["c"]

        def _get_correct_index(self, item):
            return item["a"]

    node = Partly().to_node()
    assert not isinstance(node, Group)
    target = node.to_dict()["doc_to_target"]
    assert target == "multiform.tasks.styler_hooks.StylerHooks._get_ground_truth"
