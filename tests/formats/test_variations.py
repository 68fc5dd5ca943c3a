"""Variations of formats: their names, what each value of an axis changes, draws with a seed, and axes of one's own."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from multiform import ConfigError, FormatConfig, Task, TaskConfig, TaskManager, UsageError
from multiform.cli.main import main
from multiform.formats.axes import BUILTIN
from multiform.formats.base import formats
from multiform.formats.select import select_format
from multiform.formats.variation import Grammar, Selected, Variation
from multiform.forms import RunSettings
from multiform.tasks.group import Group
from multiform.tasks.manager import Design

GOLDEN = Path(__file__).parent.parent / "golden" / "quiz" / "variations.txt"
BUILT_IN = ("mcqa", "cloze", "hybrid", "generate", "cot", "bpb")


def selected(text: str, spec: Any = None) -> Selected:
    found = select_format(spec, text)
    assert found is not None
    return found


def label_of(text: str) -> str:
    return selected(text).label


def draw(label: str, number: int, *, seed: int | None = 0, shots: bool = True) -> list[str]:
    base = Variation.parse(label)
    format = FormatConfig.by_name(base.label)
    return Grammar().draw([format], base, number, seed=seed, shots=shots)


def one_by_one() -> list[str]:
    """Every value of every axis that changes one of the built-in formats, as the label of a variation."""
    labels = []
    for name in ("mcqa", "generate", "cot"):
        for axis, values in BUILTIN.items():
            if name != "mcqa" and axis != "instruction":
                continue
            fixed = "instruction=answer," if axis == "shots" else ""
            for value in values:
                try:
                    label = label_of(f"{name}[{fixed}{axis}={value}]")
                except ConfigError:  # an instruction of another format
                    continue
                labels += [label] if f"{axis}={value}" in label else []
    return labels


def prompts() -> str:
    """What show prints of all of them; `python -m tests.formats.test_variations` writes the golden file again."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main(["show", f"quiz@{'+'.join(one_by_one())}", "--num_fewshot", "1"]) == 0
    return shown.getvalue()


def test_every_value_of_every_axis_prints_the_golden_prompt():
    assert prompts() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(("place", "turn"), [("after", 0), ("before", 2)])
def test_in_a_chat_the_one_instruction_stands_in_the_first_turn_or_the_last(place, turn):
    chats = []

    def template(messages, **options):
        chats.append([message["content"] for message in messages])
        return ""

    config = TaskManager().load(f"quiz@mcqa[instruction=answer,shots={place}]")[0]
    task = Task.from_config(config).under(RunSettings(num_fewshot=1, apply_chat_template=True))
    task.sample(0, task.eval_docs[0], template)
    begun = [content.startswith("Answer the following question.\nQuestion: ") for content in chats[0]]
    assert begun == [index == turn for index in range(3)]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("mcqa[]", "mcqa"),
        ("mcqa[labels=letters]", "mcqa"),
        ("mcqa[order=original,draw=0]", "mcqa"),
        ("mcqa[sep=space,wrap=(x),labels=roman]", "mcqa[sep=space,labels=roman,wrap=(x)]"),
        ("mcqa[ labels = roman , wrap = [x] ]", "mcqa[labels=roman,wrap=[x]]"),
        ("mcqa[draw=2,order=shuffle:7]", "mcqa[order=shuffle:7,draw=2]"),
        ("mcqa[order=rotate:0]", "mcqa"),
        ("mcqa[order=abcd]", "mcqa"),
        ("cloze[question=none,case=upper]", "cloze[question=none,case=upper]"),
        ("cloze[question=none,answer=a,case=title]", "cloze[question=none,answer=a]"),
    ],
)
def test_a_name_is_canonical_without_what_the_format_has_anyway(written, canonical):
    assert label_of(written) == canonical
    assert label_of(canonical) == canonical


@pytest.mark.parametrize("name", BUILT_IN)
def test_drawn_variations_are_distinct_and_can_be_typed_after_the_at_sign(name):
    labels = draw(name, 16)
    assert len(set(labels)) == 16
    assert name not in labels
    assert [label_of(label) for label in labels] == labels
    contents = {repr((selected(label).format, selected(label).order)) for label in labels}
    assert len(contents) == 16


def test_variations_depend_on_the_seed_alone():
    assert draw("mcqa", 16, seed=7) == draw("mcqa", 16, seed=7) != draw("mcqa", 16, seed=8)
    assert draw("mcqa", 16)[:4] == draw("mcqa", 4)


def test_names_and_hashes_are_the_same_on_every_machine():
    labels = draw("mcqa", 3)
    assert [(label, Variation.parse(label).hash) for label in labels] == [
        (
            "mcqa[instruction=choose,shots=after,answer=response,sep=line,case=upper,sections=blank,labels=lower,"
            "wrap=[x],between=semicolon,order=shuffle:2]",
            "fde6a0b3",
        ),
        (
            "mcqa[instruction=answer,shots=before,question=q,answer=response,sep=space,sections=space,labels=lower,"
            "wrap=x:,between=space,order=rotate:1]",
            "1bae33d7",
        ),
        (
            "mcqa[answer=response,sep=colons,case=lower,labels=lower,wrap=[x],between=semicolon,order=shuffle:2]",
            "11fdf58a",
        ),
    ]


def test_no_variations_at_all_are_refused():
    with pytest.raises(UsageError, match="no variations are requested"):
        TaskManager().load("quiz@mcqa~0")


def test_drawn_variations_keep_the_values_that_are_typed():
    assert all("labels=roman" in label for label in draw("mcqa[labels=roman]", 8))


def test_without_few_shot_examples_nothing_about_them_is_drawn():
    assert any("shots=" in label for label in draw("mcqa", 16))
    assert not any("shots=" in label for label in draw("mcqa", 16, shots=False))


def test_more_variations_than_there_are_is_an_error_that_says_how_many_there_are(registry_format):
    with pytest.raises(UsageError, match=r"'plain' has only (\d+) variations, and 500 were requested") as caught:
        draw("plain", 500)
    number = int(re.findall(r"only (\d+)", str(caught.value))[0])
    assert len(draw("plain", number)) == number


@pytest.fixture
def registry_format(monkeypatch):
    """A format without words, of which only few things can vary."""
    monkeypatch.setitem(formats._entries, "plain", lambda: FormatConfig(question_prefix="", answer_prompt="->"))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("mcqa[lables=roman]", "unknown axis 'lables' in 'mcqa[lables=roman]'; did you mean 'labels'"),
        ("mcqa[labels=romn]", "unknown value 'romn' of labels in 'mcqa[labels=romn]'; did you mean 'roman'"),
        ("mcqa[labels]", "expected axis=value"),
        ("mcqa[labels=roman", "the brackets of 'mcqa[labels=roman' do not close"),
        ("mcqa[sep=space,sep=dash]", "two values of sep"),
        ("cloze[labels=roman]", "labels=roman does not fit format 'cloze'"),
        ("cloze[order=reverse]", "does not show the choices"),
        ("mcqa[order=abd]", "unknown order of choices 'abd'"),
        ("mcqa[draw=x]", "draw=x is not a whole number"),
        ("mcqaa[labels=roman]", "unknown format 'mcqaa'"),
        ("[labels=roman]", "the task has no format that could be varied"),
    ],
)
def test_a_variation_that_cannot_be_is_refused(label, message):
    with pytest.raises(ConfigError) as caught:
        select_format(None, label)
    assert message in str(caught.value)


def test_labels_that_a_task_lists_are_not_replaced_as_its_answers_may_be_among_them():
    spec = {"type": "mcqa", "choice_labels": ["I", "II", "III", "IV"]}
    with pytest.raises(ConfigError, match="labels=numbers does not fit"):
        select_format(spec, "[labels=numbers]")


def test_words_of_another_language_are_not_replaced_by_english_ones():
    german = {"type": "mcqa", "question_prefix": "Frage: ", "answer_prompt": "Antwort:"}
    with pytest.raises(ConfigError, match="question=q does not fit"):
        select_format(german, "[question=q]")
    assert selected("[labels=roman]", german).label == "mcqa[labels=roman]"


# Axes of a task or format.

TASK = """\
task: asked
dataset_path: rows.jsonl
test_split: train
doc_to_text: q
doc_to_choice: c
doc_to_target: a
formats: {mcqa: {}, short: {type: mcqa, question_prefix: "", variations: {mood: {glad: {instruction: "Nice!"}}}}}
variations:
  tone:
    polite: {instruction: "Please answer."}
    rude: {instruction: "Answer. Now."}
  labels: [letters, roman]
  order: null
"""


@pytest.fixture
def asked(tmp_path):
    """A folder with a task that has its own axes."""
    (tmp_path / "rows.jsonl").write_text('{"q": "2 + 2?", "c": ["3", "4"], "a": 1}\n', encoding="utf-8")
    (tmp_path / "asked.yaml").write_text(TASK, encoding="utf-8")
    return tmp_path


def test_a_task_declares_axes_and_limits_built_in_ones(asked, capsys):
    assert main(["show", "asked@mcqa[tone=polite,labels=roman]", "--include_path", str(asked)]) == 0
    assert capsys.readouterr().out == (
        "=== asked@mcqa[tone=polite,labels=roman] · doc 0 · 2 continuations · target 1\n"
        'Please answer.\nQuestion: 2 + 2?\nI. 3\nII. 4\nAnswer:\n--- " I"\n--- " II"\n\n'
    )


def test_a_format_declares_axes_as_well(asked):
    format = TaskManager(asked).load("asked@short[mood=glad]")[0].format
    assert format is not None
    assert format.instruction == "Nice!"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("mcqa[labels=numbers]", "unknown value 'numbers' of labels"),
        ("mcqa[order=reverse]", "the task does not allow another order of its choices"),
        ("mcqa[mood=glad]", "unknown axis 'mood'"),
    ],
)
def test_what_a_task_does_not_allow_is_refused(asked, label, message):
    with pytest.raises(ConfigError) as caught:
        TaskManager(asked).load(f"asked@{label}")
    assert message in str(caught.value)


def test_variations_are_drawn_from_the_axes_of_the_task(asked):
    labels = [str(config.format_label) for config in TaskManager(asked).load("asked@mcqa~24")]
    assert any("tone=rude" in label for label in labels)
    assert not any("order=" in label or "labels=numbers" in label for label in labels)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"tone": {"calm": {"scored": "texts"}}}, "variations.tone.calm.scored: a variation cannot change 'scored'"),
        ({"tone": {"calm": "x"}}, "variations.tone.calm: expected fields of a format, got 'x'"),
        ({"tone": ["calm"]}, "variations.tone: expected a mapping of values, got ['calm']"),
        ({"labels": ["greek"]}, "variations.labels: unknown value 'greek' of axis 'labels'"),
        ({"draw": {"x": {}}}, "variations.draw: an axis cannot be called 'draw'"),
        ({"tone": {"a,b": {}}}, "variations.tone: a value cannot be called 'a,b'"),
        ({"order": ["sorted"]}, "variations.order: unknown order of choices 'sorted'"),
    ],
)
def test_axes_that_are_declared_wrongly_are_refused_when_the_task_is_read(declared, message):
    with pytest.raises(ConfigError) as caught:
        TaskConfig(task="t", doc_to_text="q", doc_to_choice="c", doc_to_target="a", formats="mcqa", variations=declared)
    assert message in str(caught.value)


# From names on the command line to forms.


def test_commas_and_plus_signs_separate_only_outside_of_brackets():
    names = [
        config.form_name for config in TaskManager().load("quiz@mcqa[labels=roman,sep=space]+cloze,quiz_problems@cot")
    ]
    assert names == ["quiz@mcqa[sep=space,labels=roman]", "quiz@cloze", "quiz_problems@cot"]


def test_two_names_of_one_variation_are_one_form():
    names = [config.form_name for config in TaskManager().load("quiz@mcqa+mcqa[labels=letters]+mcqa[]")]
    assert names == ["quiz@mcqa"]


def test_all_formats_can_run_beside_variations_of_one():
    names = [config.form_name for config in TaskManager(design=Design(seed=3)).load("quiz@all+mcqa~8")]
    assert names[:6] == [f"quiz@{name}" for name in BUILT_IN]
    assert len(names) == len(set(names)) == 14
    assert [config.form_name for config in TaskManager(design=Design(seed=4)).load("quiz@all+mcqa~8")] != names


def test_a_number_of_variations_has_the_format_itself_as_reference():
    names = [config.form_name for config in TaskManager().load("quiz@mcqa~3")]
    assert names[0] == "quiz@mcqa"
    assert len(names) == 4
    fixed = [config.form_name for config in TaskManager().load("quiz@mcqa[labels=roman]~2")]
    assert fixed[0] == "quiz@mcqa[labels=roman]"


def test_variations_of_a_group_are_those_of_all_its_members(tmp_path):
    (tmp_path / "pair.yaml").write_text("group: pair\ntask: [quiz, quiz_problems]\n", encoding="utf-8")
    node = TaskManager(tmp_path).tree("pair@cot~2")[1]
    assert isinstance(node, Group)
    assert [config.form_name for config in node.tasks()] == [f"quiz@{node.label}", f"quiz_problems@{node.label}"]


def test_a_task_of_the_library_of_lm_eval_is_varied_through_its_recovered_fields(mirror, tmp_path, capsys):
    pytest.importorskip("lm_eval")
    arguments = ["--include_path", "lm_eval", "--dataset_mirror", str(mirror), "--num_fewshot", "1"]
    label = "mcqa[sep=space,labels=roman,wrap=(x),order=reverse]"
    assert main(["show", f"arc_easy@mcqa+{label}", *arguments]) == 0
    plain, varied = capsys.readouterr().out.split("\n\n=== ")
    assert varied.startswith(f"arc_easy@{label} · doc 0")
    plain_choices, varied_choices = (re.findall(r"^(?:\w\.|\(\w+\)) (.*)$", text, re.M) for text in (plain, varied))
    assert len(plain_choices) == 8
    assert varied_choices == [*plain_choices[3::-1], *plain_choices[7:3:-1]]
    gold = [int(re.findall(r"target (\d)", text)[0]) for text in (plain, varied)]
    assert gold[1] == 3 - gold[0]


if __name__ == "__main__":
    GOLDEN.write_text(prompts(), encoding="utf-8")
