"""Form: what it is called, what it depends on, and its documents, samples and scores."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from multiform import ConfigError, DataError, Form, RunSettings, Task
from multiform.requests import LLOutput


def test_a_form_cannot_be_changed(config):
    form = Form(config())
    with pytest.raises(FrozenInstanceError):
        form.settings = RunSettings()  # type: ignore[misc]


def test_a_form_has_the_name_of_its_task_and_format(config):
    form = Form(config(task="facts@mcqa", output_type=None))
    assert (form.name, form.task_name, form.format_label) == ("facts@mcqa", "facts", "mcqa")
    assert Form(config()).name == Form(config()).task_name == "facts"


def test_an_alias_takes_the_place_of_the_task_in_the_name(config):
    assert Form(config(task="facts@mcqa", output_type=None, task_alias="Facts")).alias == "Facts@mcqa"


def test_under_gives_another_form_and_leaves_this_one_as_it_is(config):
    form = Form(config())
    other = form.under(RunSettings(num_fewshot=2))
    assert (form.num_fewshot, other.num_fewshot) == (0, 2)
    assert form.identity() != other.identity()


def test_a_form_under_other_settings_does_not_load_its_documents_again(config):
    loads = []

    def load(**kwargs: Any) -> dict[str, Any]:
        loads.append(kwargs)
        return {"test": [{"question": "Why?", "choices": ["no", "yes"], "answer": 1}]}

    form = Form(config(custom_dataset=load, fewshot_split=None, fewshot_config=None))
    assert len(form.eval_docs) == len(form.under(RunSettings(limit=1)).eval_docs) == 1
    assert len(loads) == 1


def test_the_run_selects_the_documents(config):
    form = Form(config())
    assert [doc_id for doc_id, _ in form.docs()] == [0, 1, 2]
    assert [doc_id for doc_id, _ in form.docs(limit=1)] == [0]
    assert [doc_id for doc_id, _ in form.under(RunSettings(limit=2)).docs()] == [0, 1]
    assert [doc_id for doc_id, _ in form.under(RunSettings(samples={"facts": [2, 0]})).docs()] == [0, 2]
    assert [doc_id for doc_id, _ in form.under(RunSettings(samples={"others": [1]})).docs()] == [0, 1, 2]


def test_a_document_that_is_not_there_is_an_error_of_the_form(config):
    with pytest.raises(DataError, match="facts: no document 7; the split has documents 0 to 2"):
        list(Form(config(), RunSettings(samples={"facts": [7]})).docs())


def test_a_sample_is_scored_and_the_scores_are_aggregated(config):
    form = Form(config())
    prefers_yes = [LLOutput(-2.0), LLOutput(-1.0)]
    scored = [result for doc_id, doc in form.docs() for result in form.score(form.sample(doc_id, doc), prefers_yes)]
    assert form.estimates(scored)["acc,none"].value == pytest.approx(1 / 3)
    assert form.higher_is_better == {"acc": True, "acc_norm": True}


def test_what_cannot_be_run_is_refused_when_the_form_is_built(config):
    with pytest.raises(ConfigError, match="unknown sampler 'firstn'"):
        Form(config(fewshot_config={"sampler": "firstn"}))
    with pytest.raises(ConfigError, match="metric bleu does not fit output_type multiple_choice"):
        Form(config(metric_list=[{"metric": "bleu"}]))
    with pytest.raises(ConfigError, match="write it as process_results"):
        Form(config(process_results=lambda doc: {"acc": 1.0}))


def test_choices_that_no_model_would_see_are_known(config):
    assert Form(config(output_type=None)).ignores_choices
    assert not Form(config(output_type="generate_until")).ignores_choices
    assert not Form(config()).ignores_choices


class Shouting(Task):
    """Asks in capitals, with the number of few-shot examples of its run."""

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        return f"{super().doc_to_text(doc, doc_to_text).upper()} ({self.num_fewshot})"


def test_hooks_see_the_settings_of_their_form(config):
    form = Shouting(config()).form
    other = form.under(RunSettings(num_fewshot=1))
    assert form.sample(0, form.eval_docs[0]).prompt == "CAN FISH FLY? (0)"
    assert other.sample(0, other.eval_docs[0]).prompt == "IS ICE COLD? (1) yes\n\nCAN FISH FLY? (1)"
    assert form.sample(1, form.eval_docs[1]).prompt == "IS SNOW WHITE? (0)"


def test_prompts_of_code_are_not_perturbed(config):
    with pytest.raises(ConfigError, match="Shouting makes its prompts itself"):
        Shouting(config()).form.under(RunSettings(perturbation={"type": "uppercase"}))


class Downloading(Task):
    """Reads its documents with an argument that it adds itself."""

    def download(self, dataset_kwargs: Any = None) -> None:
        super().download({"split_size": 2})


def test_download_may_change_the_arguments_of_its_dataset(config):
    def load(split_size: int = 1, **kwargs: Any) -> dict[str, Any]:
        return {"test": [{"question": "Why?", "choices": ["no", "yes"], "answer": 1}] * split_size}

    form = Downloading(config(custom_dataset=load, fewshot_split=None, fewshot_config=None)).form
    assert len(form.eval_docs) == 2
