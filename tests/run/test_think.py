"""`think`: the model thinks, and then the choices are scored after its thought."""

from __future__ import annotations

import json
from typing import Any

import pytest

from multiform import Completion, LLOutput, TaskConfig, TaskManager, UsageError, evaluate
from multiform.errors import ConfigError
from multiform.formats.builtin import ThinkFormat
from multiform.models.dummy import DummyModel
from multiform.results.read import read_results
from multiform.run.rescoring import rescore

#: A chat template with thoughts, as Qwen's; written for these tests.
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>\n"
    "{% if m.reasoning_content is defined %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


class Thinker(DummyModel):
    """Finds the choice most likely that its thought names; with `cut`, thoughts run into the limit."""

    name = identity = "thinker"
    stored = True

    def __init__(self, *, cut: bool = False, thoughts: tuple[str, ...] = ("D",), variables: Any = None) -> None:
        super().__init__()
        self.cut, self.thoughts, self.variables = cut, thoughts, variables or {}
        self.generated: list[Any] = []
        self.scored: list[Any] = []

    def apply_chat_template(self, messages, *, add_generation_prompt=True):
        from jinja2 import Template

        text = Template(TEMPLATE).render(
            messages=messages, add_generation_prompt=add_generation_prompt, **self.variables
        )
        return text if add_generation_prompt else text.removesuffix("<|end|>\n")

    def chat_template_text(self):
        return TEMPLATE

    def generate(self, requests):
        self.generated += requests
        for position, request in enumerate(requests):
            label = self.thoughts[request.sample % len(self.thoughts)]
            yield position, Completion(f"It must be {label}.", truncated=self.cut)

    def loglikelihood(self, requests):
        self.scored += requests
        for position, request in enumerate(requests):
            named = f"It must be{request.continuation}." in request.context
            yield position, LLOutput(-0.1 if named else -3.0, is_greedy=named, tokens=1)


def run(model, tasks="quiz@think", **options):
    return evaluate(model=model, tasks=tasks, **{"limit": 3, "use_cache": False, **options})


def test_without_a_chat_template_the_choices_are_scored_where_the_answer_would_be_named():
    model = Thinker()
    [form] = run(model).forms
    thought = model.generated[0]
    assert thought.context.endswith("one of A, B, C or D.")
    assert thought.gen_kwargs["until"] == ["The best answer is"]
    assert len(model.scored) == 12
    expected = f"{thought.context}It must be D.\nThe best answer is"
    assert {request.context for request in model.scored[:4]} == {expected}
    assert [request.continuation for request in model.scored[:4]] == [" A", " B", " C", " D"]
    assert [sample.prediction for sample in form.samples] == [3, 3, 3]


def test_under_a_template_with_thoughts_the_thought_is_the_models_own():
    model = Thinker()
    run(model, apply_chat_template=True)
    thought = model.generated[0]
    assert thought.context.endswith("<|assistant|>\n<think>\n")
    assert thought.gen_kwargs["until"] == ["</think>"]
    assert model.scored[0].context == f"{thought.context}It must be D.\n</think>\n\nThe best answer is"


def test_where_thinking_is_switched_off_the_model_reasons_in_plain_text():
    model = Thinker(variables={"enable_thinking": False})
    run(model, apply_chat_template=True)
    assert model.generated[0].context.endswith("<think>\n\n</think>\n\n")
    assert model.generated[0].gen_kwargs["until"] == ["The best answer is"]
    assert model.scored[0].context == f"{model.generated[0].context}It must be D.\nThe best answer is"


def test_texts_are_scored_without_labels():
    config = TaskManager().load("quiz")[0].replace(formats={"type": "think", "choice_labels": None})
    model = Thinker()
    run(model, config, limit=1)
    assert [request.continuation for request in model.scored] == [" Mars", " Saturn", " Venus", " Mercury"]
    assert model.scored[0].context.endswith("\nThe final answer is")


def test_cut_off_thoughts_are_closed_scored_and_counted():
    model = Thinker(cut=True)
    text = str(run(model, apply_chat_template=True, gen_kwargs={"max_gen_toks": 2048}))
    assert model.scored[0].context.endswith("It must be D.\n</think>\n\nThe best answer is")
    assert (
        "quiz@think: 3 of 3 thoughts were cut off at 2,048 tokens; the choices are scored after what there was" in text
    )
    assert text.count("cut off") == 1


def test_a_thought_leaves_room_for_its_end_and_the_choices():
    model = Thinker()
    run(model, apply_chat_template=True)
    limit = model.generated[0].gen_kwargs["max_gen_toks"]
    assert limit == f"context-{len('</think>') + len(chr(10)) * 3 + len('The best answer is A')}"


def test_repeats_score_the_choices_after_every_thought():
    config = TaskManager().load("quiz@think")[0].replace(
        repeats=3, metric_list=[{"metric": "acc", "reduction": "avg@3+pass@2+maj@3+cons@3"}]
    )  # fmt: skip
    model = Thinker(thoughts=("D", "A", "D"))
    [form] = run(model, config, limit=1).forms
    assert len({request.sample for request in model.generated}) == 3
    assert len(model.scored) == 8, "two repeats had the same thought, whose choices are scored once"
    assert form.samples[0].prediction == [3, 0, 3]
    values = {name: round(value, 4) for name, value in form.samples[0].values.items()}
    del values["acc_norm"]  # of the first thought
    assert values == {"avg@3(acc)": 0.6667, "pass@2(acc)": 1.0, "maj@3(acc)": 1.0, "cons@3(acc)": 1.0}


def test_votes_of_a_metric_that_may_pick_another_choice_are_refused():
    config = TaskManager().load("quiz@think")[0].replace(
        repeats=3, metric_list=[{"metric": "acc_norm", "reduction": "maj@3"}]
    )  # fmt: skip
    with pytest.raises(ConfigError, match="votes are for the choice that acc picks"):
        run(Thinker(), config, limit=1)


def test_samples_and_store_have_both_stages(tmp_path):
    options = {"use_cache": tmp_path / "store.db", "output_path": tmp_path / "out", "log_samples": True}
    first = run(Thinker(), **options)
    [path] = (tmp_path / "out").rglob("samples_*.jsonl")
    line = json.loads(path.read_text().splitlines()[0])
    assert line["resps"][0] == ["It must be D."]
    assert line["loglikelihoods"] == [-3.0, -3.0, -3.0, -0.1]
    assert (line["num_tokens"], line["prediction"]) == ([1, 1, 1, 1], 3)
    read = read_results(next((tmp_path / "out").rglob("results_*.json")))
    assert [s.outputs for s in read.forms[0].samples] == [s.outputs for s in first.forms[0].samples]
    again = Thinker()
    assert dict(run(again, **options)) == dict(first)
    assert (again.generated, again.scored) == ([], [])
    assert rescore(tmp_path / "out")["quiz@think"] == first["quiz@think"]


@pytest.mark.parametrize(("model", "reason"), [
    ("anthropic", "the model 'anthropic' gives no log-likelihoods, which 'quiz@think' scores"),
    ("openai-chat", "'quiz@think' scores choices after a thought, and this server begins a new answer instead"),
])  # fmt: skip
def test_servers_that_get_messages_are_refused(model, reason):
    arguments = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(UsageError, match=reason):
        evaluate(model=model, model_args=arguments, tasks="quiz@think", limit=1)


@pytest.mark.parametrize(("keys", "message"), [
    ({"scored": "generation"}, "after a thought, labels or texts are scored, not generation"),
    ({"after_thought": " "}, "it is empty, but marks the end of a thought"),
    ({"gen_prefix": "The answer is"}, "the answer begins after the thought, not in the prompt"),
])  # fmt: skip
def test_settings_that_do_not_fit_are_refused(keys, message):
    with pytest.raises(ConfigError, match=message):
        ThinkFormat(**keys)


def test_a_few_shot_example_ends_in_the_answer():
    model = Thinker()
    run(model, num_fewshot=1, limit=1)
    assert "one of A, B, C or D.\nThe best answer is " in model.generated[0].context


class Answerer(Thinker):
    """Writes what it is told to in a thought, and the best answer after one."""

    def generate(self, requests):
        self.generated += requests
        for position, request in enumerate(requests):
            begun = request.context.endswith("<think>\n")
            limit = request.gen_kwargs["max_gen_toks"]
            thought = Completion("", truncated=limit == 16, thought="Hm, is it A")
            yield position, thought if begun else Completion("The best answer is D")


def test_every_thinking_budget_gives_a_form():
    model = Answerer()
    results = run(model, ["quiz@think", "quiz@mcqa"], thinking_budget=[0, 16], apply_chat_template=True, limit=1)
    assert [form.form for form in results.forms] == ["quiz@think[budget=0]", "quiz@think[budget=16]", "quiz@mcqa"]
    [thought] = model.generated
    assert thought.gen_kwargs["max_gen_toks"] == 16
    ends = {request.context.partition("<think>")[2] for request in model.scored}
    assert ends == {
        "", "\n\n</think>\n\nThe best answer is", "\nHm, is it A\n</think>\n\nThe best answer is"
    }  # fmt: skip


def test_a_thought_ends_at_its_budget_and_the_answer_follows():
    model = Answerer()
    results = run(model, "quiz@mcq_cot", thinking_budget=[0, 16], apply_chat_template=True, limit=1)
    [off, short] = results.forms
    assert "they count as wrong" not in str(results)
    prompts = [request.context.partition("<think>")[2] for request in model.generated]
    assert sorted(prompts) == ["\n", "\n\n</think>\n\n", "\nHm, is it A\n</think>\n\n"]
    assert all("thinking_budget" not in request.gen_kwargs for request in model.generated)
    assert [request.gen_kwargs["max_gen_toks"] for request in model.generated] == ["context", 16, "context"]
    assert (off.samples[0].prediction, short.samples[0].prediction) == ("D", "D")


@pytest.mark.parametrize(("cut", "noted"), [("</think>", False), ("\nQuestion:", True)])
def test_only_answers_that_were_cut_off_are_noted_beside_a_budget(cut, noted):
    class Long(Thinker):
        def generate(self, requests):
            for position, request in enumerate(requests):
                is_thought = request.gen_kwargs["until"] == ["</think>"]
                yield position, Completion("Hm", truncated=is_thought == (cut == "</think>"))

    results = run(Long(), "quiz@mcq_cot", thinking_budget=[16], apply_chat_template=True)
    assert ("3 cut off at a limit" in str(results)) == noted
    assert ("were cut off at the limit of tokens: raise it" in str(results)) == noted


def test_a_budget_in_a_conversation_is_refused_where_the_model_gets_texts():
    config = TaskConfig(
        task="talk",
        custom_dataset=lambda **_: {"test": [{"turns": ["One?", "Two?"]}]},
        test_split="test",
        doc_to_text="{{turns[0]}}",
        doc_to_turns="{{turns[1:]}}",
        doc_to_target="2",
        output_type="generate_until",
        metric_list=[{"metric": "exact_match"}],
    )
    with pytest.raises(UsageError, match="'talk' is a conversation, in which only a server keeps a thinking budget"):
        run(Thinker(), [config], gen_kwargs={"thinking_budget": 16}, apply_chat_template=True)


def test_a_budget_without_a_place_for_thoughts_is_refused():
    with pytest.raises(
        UsageError, match="the prompt is a text without a place for thoughts; add --apply_chat_template"
    ):
        run(Answerer(), "quiz@mcq_cot", thinking_budget=[16])
    with pytest.raises(UsageError, match="the chat template has switched thinking off; add --model_args"):
        run(
            Answerer(variables={"enable_thinking": False}), "quiz@mcq_cot",
            thinking_budget=[16], apply_chat_template=True,
        )  # fmt: skip
    with pytest.raises(UsageError, match="has no format under which a model may think"):
        run(Answerer(), "quiz@mcqa", thinking_budget=[16])


class Reasoner(Thinker):
    """Thinks apart from its answer, as servers and think_end_token give it, and answers as each form asks."""

    def generate(self, requests):
        self.generated += requests
        for position, request in enumerate(requests):
            answer = (
                "" if request.context.endswith("<think>\n") else "The best answer is D. The final answer is Mercury"
            )
            yield position, Completion(answer, thought="It must be D.")


def test_all_forms_for_reasoning_models_run_end_to_end(tmp_path):
    forms = "quiz@mcq_cot+think+open+blind+cot+generate+mcqa"
    results = run(Reasoner(), forms, limit=2, apply_chat_template=True, output_path=tmp_path / "out", log_samples=True)
    first = {form.form.partition("@")[2]: form.samples[0] for form in results.forms}
    assert {name: sample.prediction for name, sample in first.items() if name in ("mcq_cot", "generate")} == {
        "mcq_cot": "D", "generate": "D"
    }  # fmt: skip
    assert (first["think"].prediction, first["cot"].prediction) == (3, "mercury")
    assert [form.form for form in results.forms if form.control] == ["quiz@open", "quiz@blind"]
    for path in (tmp_path / "out").rglob("samples_*.jsonl"):
        line = json.loads(path.read_text().splitlines()[0])
        written = any("until" in str(arguments) for arguments in line["arguments"].values())
        assert line.get("thoughts") == (["It must be D."] if written else None)
