"""A method that a subclass overrides is called in a run, or the class is refused by the name of the method."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, DataError, MCQTemplateConfig, Task, TaskConfig, evaluate
from multiform.compat.lm_eval.task import ConfigurableTask
from multiform.forms.samplers import FirstNSampler
from multiform.forms.spec import CALLED, REFUSED

ROWS = [
    {"question": "Is a stone alive?", "choices": ["no", "yes"], "answer": 0},
    {"question": "Is a tree alive?", "choices": ["no", "yes"], "answer": 1},
]
SHOT = {"question": "Is a cat alive?", "choices": ["no", "yes"], "answer": 1}


@pytest.fixture(params=[Task, ConfigurableTask])
def base(request: pytest.FixtureRequest) -> Any:
    """`Task` under both of its names, as classes that a configuration alone builds."""
    return request.param


def built(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(config=fields)


def contexts(task: Any, model: Any) -> list[str]:
    evaluate(tasks=[task], model=model)
    return list(dict.fromkeys(request.context for request in model.asked))


# Documents


def test_the_documents_of_test_docs_are_evaluated(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def test_docs(self):
            return iter(ROWS)

    assert contexts(built(Own, fields), liking("yes")) == ["Is a stone alive?", "Is a tree alive?"]


def test_test_docs_needs_neither_a_split_nor_a_dataset(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def has_test_docs(self):
            return True

        def test_docs(self):
            return ROWS

    for key in ("custom_dataset", "test_split", "training_split", "fewshot_split"):
        del fields[key]
    assert contexts(built(Own, fields), liking("yes")) == ["Is a stone alive?", "Is a tree alive?"]


def test_validation_docs_are_evaluated_where_there_are_no_test_docs(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def has_test_docs(self):
            return False

        def has_validation_docs(self):
            return True

        def validation_docs(self):
            return ROWS[1:]

    assert contexts(built(Own, fields), liking("yes")) == ["Is a tree alive?"]


def test_few_shot_examples_come_from_training_docs(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def training_docs(self):
            return [SHOT]

    del fields["fewshot_split"]
    task = built(Own, {**fields, "num_fewshot": 1})
    assert contexts(task, liking("yes"))[0] == "Is a cat alive? yes\n\nCan fish fly?"


def test_few_shot_examples_come_from_no_split_that_the_class_says_is_not_there(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def has_training_docs(self):
            return False

        def validation_docs(self):
            return [SHOT]

        def has_validation_docs(self):
            return True

    del fields["fewshot_split"]
    task = built(Own, {**fields, "num_fewshot": 1})
    assert contexts(task, liking("yes"))[0] == "Is a cat alive? yes\n\nCan fish fly?"


def test_download_sets_the_rows_of_all_splits(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def download(self, dataset_kwargs=None, **kwargs):
            self.dataset = {"test": ROWS, "train": [SHOT]}

    task = built(Own, {**fields, "custom_dataset": None, "num_fewshot": 1})
    assert contexts(task, liking("yes"))[0] == "Is a cat alive? yes\n\nIs a stone alive?"
    assert task.dataset["test"] is ROWS


def test_download_may_change_what_the_base_class_loads(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def download(self, dataset_kwargs=None, **kwargs):
            super().download(dataset_kwargs)
            rows: Any = self.dataset["test"]  # type: ignore[has-type]
            self.dataset = {"test": rows.select([3]), "train": []}

    assert contexts(built(Own, fields), liking("yes")) == ["Do birds sing?"]


def test_rows_of_download_are_processed_like_others(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def download(self, dataset_kwargs=None, **kwargs):
            self.dataset = {"test": ROWS, "train": []}

        @staticmethod
        def process_doc(doc):
            return {**doc, "question": doc["question"].upper()}

    process = {"process_docs": lambda rows: rows.filter(lambda row: row["answer"] == 1)}
    assert contexts(built(Own, {**fields, **process}), liking("yes")) == ["IS A TREE ALIVE?"]


def test_documents_of_overridden_methods_may_call_those_of_the_base_class(base, fields, liking):
    class Own(base):  # type: ignore[misc, valid-type]
        def test_docs(self):
            return list(super().test_docs())[1:2]

    assert contexts(built(Own, fields), liking("yes")) == ["Is snow white?"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ({"test_docs": lambda self: 1 / 0}, "test_docs failed: ZeroDivisionError"),
        ({"test_docs": lambda self: None}, "no documents from test_docs"),
        ({"download": lambda self, dataset_kwargs=None: None}, "download set no dataset"),
        ({"download": lambda self, dataset_kwargs=None: setattr(self, "dataset", ROWS)}, "dataset was set to list"),
    ],
)
def test_what_the_code_of_a_class_does_wrong_is_an_error(base, fields, liking, code, message):
    with pytest.raises(DataError, match=message):
        evaluate(tasks=[built(type("Own", (base,), code), fields)], model=liking("yes"))


# The sampler


def test_the_sampler_of_a_class_draws_the_examples(fields, liking):
    class Own(Task):
        @property
        def sampler(self):
            return FirstNSampler(list(reversed(super().sampler.pool)))

    assert contexts(Own({**fields, "num_fewshot": 1}), liking("yes"))[0] == "Do stones eat? no\n\nCan fish fly?"


def test_a_sampler_that_is_none_is_an_error(base, fields, liking):
    with pytest.raises(ConfigError, match=r"sampler is 'first', not a multiform\.Sampler"):
        evaluate(
            tasks=[built(type("Own", (base,), {"sampler": "first"}), {**fields, "num_fewshot": 1})], model=liking("yes")
        )


# Methods that a run does not call


@pytest.mark.parametrize("name", REFUSED)
def test_a_method_that_a_run_does_not_call_is_refused_when_the_task_is_built(base, fields, name):
    class Own(base):  # type: ignore[misc, valid-type]
        pass

    setattr(Own, name, lambda self, *args, **kwargs: None)
    with pytest.raises(ConfigError, match=f"Own overrides {name}, which a run does not call; "):
        built(Own, fields)


def test_every_method_of_task_is_called_in_a_run_or_refused_where_it_is_overridden():
    by_calls = {"from_config", "of_config", "dataset"}
    public = {name for name in vars(Task) if not name.startswith("_")}
    assert public - {"any_keys", "OUTPUT_TYPE"} == by_calls | set(CALLED) | (REFUSED.keys() - {"build_qa_turn"})


# Templates


class Shouting(MCQTemplateConfig):
    """Has its own functions from documents to prompts and choices."""

    def wrap_doc_to_text(self, original_doc_to_text, original_doc_to_choice=None):
        inner = super().wrap_doc_to_text(original_doc_to_text, original_doc_to_choice)
        return lambda doc: inner(doc).upper()

    def wrap_doc_to_choice(self, original_doc_to_choice):
        inner = super().wrap_doc_to_choice(original_doc_to_choice)
        return lambda doc: [f"({label})" for label in inner(doc)]


def test_the_functions_of_a_template_subclass_are_called(fields, liking):
    del fields["output_type"]
    config: Any = TaskConfig(**fields, template=Shouting())
    assert config.doc_to_choice(ROWS[0]) == ["(A)", "(B)"]
    model = liking("(B)")
    scores = evaluate(tasks=[Task.from_config(config)], model=model)["facts"]
    assert model.asked[0].context == "CAN FISH FLY?\nA. NO\nB. YES\nANSWER:"
    assert [request.continuation for request in model.asked[:2]] == [" (A)", " (B)"]
    assert scores["acc,none"] == 0.5


def test_one_of_the_two_functions_may_be_overridden_alone(fields, liking):
    class Bracketed(MCQTemplateConfig):
        def wrap_doc_to_choice(self, original_doc_to_choice):
            return lambda doc: [f"({label})" for label in "AB"]

    del fields["output_type"]
    model = liking("(B)")
    evaluate(tasks=[Task.from_config({**fields, "template": Bracketed()})], model=model)
    assert (model.asked[0].context, model.asked[0].continuation) == (
        "Can fish fly?\nA. no\nB. yes\nAnswer:",
        " (A)",
    )
