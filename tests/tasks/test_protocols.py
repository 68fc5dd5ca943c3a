"""Protocols: their prompts are those that were published, and users can write their own."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from multiform.cli.main import main
from multiform.errors import ConfigError, DataError, UsageError
from multiform.forms import Task
from multiform.forms.form import Form
from multiform.tasks.folders import LIBRARY, lm_eval_folder
from multiform.tasks.manager import Design, TaskManager
from multiform.tasks.protocols import read_protocols

GOLDEN = Path(__file__).parents[1] / "golden" / "protocols"
SHARED = Path(__file__).parents[3] / "shared"
SHOTS = SHARED / "rows" / "olmes_shots"

ARC: dict[str, Any] = {
    "id": "q",
    "question": "What is wet?",
    "choices": {"text": ["Water", "Sand", "Air", "Fire"], "label": list("ABCD")},
    "answerKey": "A",
}
MMLU: dict[str, Any] = {"question": "What is wet?", "choices": ["Water", "Sand", "Air", "Fire"], "answer": 0}
#: A made-up row of each dataset.
ROWS: dict[str, dict[str, Any]] = {
    "arc_easy": ARC,
    "arc_challenge": ARC,
    "commonsense_qa": ARC,
    "openbookqa": {**ARC, "question_stem": "Water is"},
    "boolq": {"passage": "Water is wet.", "question": "is water wet", "idx": 0, "label": 1},
    "hellaswag": {
        "ind": 1,
        "activity_label": "Cooking",
        "ctx_a": "[header] How to cook. [title] Boil.",
        "ctx_b": "water",
        "endings": ["is hot. [step] Wait.", "is cold.", "is dry.", "is loud."],
        "source_id": "x",
        "label": "0",
    },
    "mmlu_anatomy": MMLU,
    "piqa": {"goal": "Boil water", "sol1": "heat it", "sol2": "cool it", "label": 0},
    "social_iqa": {
        "context": "Ann fell.",
        "question": "How does Ann feel?",
        "answerA": "hurt",
        "answerB": "glad",
        "answerC": "old",
        "label": "1",
    },
    "winogrande": {"sentence": "Ann helped Bea because _ was kind.", "option1": "Ann", "option2": "Bea", "answer": "1"},
    "gsm8k": {"question": "Ann has 2 pens and buys 3. How many has she?", "answer": "2 + 3 = 5.\n#### 5"},
    "math_algebra": {"problem": "What is $1+1$?", "solution": "It is $\\boxed{2}$.", "level": "Level 5"},
    "bbh_navigate": {"input": "Turn left. Do you return?\nOptions:\n- Yes\n- No", "target": "No"},
    "ifeval": {"prompt": "Write a word.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    "musr_object_placements": {
        "narrative": "Ann put the cup away.",
        "question": "Where would Ann look for the cup?",
        "choices": "['shelf', 'table']",
        "answer_index": 0,
        "answer_choice": "shelf",
    },
    "mmlu_pro_law": {
        "question": "What is wet?",
        "options": ["Water", "Sand", "Air", "Fire", "Ice"],
        "answer": "A",
        "answer_index": 0,
        "category": "law",
        "cot_content": "",
        "question_id": 70,
    },
    "gpqa_diamond": {
        "Question": "What is wet?",
        "Correct Answer": "Water",
        "Incorrect Answer 1": "Sand",
        "Incorrect Answer 2": "Air",
        "Incorrect Answer 3": "Fire",
        "Explanation": "",
    },
}
MEMBERS = {
    "mmlu": "mmlu_anatomy",
    "math": "math_algebra",
    "mmlu_pro": "mmlu_pro_law",
    "gpqa": "gpqa_diamond",
    "bbh": "bbh_navigate",
    "musr": "musr_object_placements",
}
PROTOCOLS = read_protocols([LIBRARY])
FORMS = [
    f"{MEMBERS.get(task, task)}@{label}"
    for protocol in PROTOCOLS.values()
    for task, entries in protocol.tasks.items()
    for label in entries
]
OLMES_SHOTS = {
    **{name: name for name in ("arc_easy", "arc_challenge", "boolq", "hellaswag", "openbookqa", "piqa", "winogrande")},
    "commonsense_qa": "csqa",
    "social_iqa": "socialiqa",
}


def form_of(name: str, shots: list[dict[str, Any]] | None = None) -> Form:
    """The form over one made-up row, with these rows to take few-shot examples from."""
    config = TaskManager().load(name)[0]
    row = ROWS[config.base_name]
    numbered = [{**row, "question": f"Question {number}?"} for number in range(5)]
    pool = numbered if shots is None else shots
    splits = {"train": [row] if shots is None else pool, "validation": [row], "test": [row], "dev": pool}
    if config.test_split not in splits:  # the members of MuSR are splits
        splits[str(config.test_split)] = [row]
    if config.test_split == "test" and config.fewshot_split == "validation":
        splits["validation"] = pool
    return Task.from_config(config.replace(custom_dataset=lambda **_: splits)).form


def prompt_of(form: Form, *, shots: int | None = 0) -> str:
    changed = form if shots is None else Task.from_config(form.config.replace(num_fewshot=shots)).form
    doc_id, doc = next(iter(changed.docs()))
    return str(changed.sample(doc_id, doc).instances[0].request.context)  # type: ignore[union-attr]


def has_rows_by_key(name: str) -> bool:
    return form_of(name).fewshot.fewshot_rows is not None


@pytest.mark.parametrize("name", FORMS)
def test_the_prompt_of_a_protocol_never_changes_without_a_new_version(name: str) -> None:
    """Prompt, continuations, target, metrics and extraction; shots by key are compared below."""
    form = form_of(name)
    if has_rows_by_key(name):
        form = Task.from_config(form.config.replace(num_fewshot=0)).form
    sample = form.sample(0, form.eval_docs[0])
    lines = [f"{form.name} · {form.config.protocol} · {form_of(name).num_fewshot} shots"]
    lines += [f"metric: {metric.name} {dict(metric.kwargs)}" for s in form.scoring.scorers for metric in s.metrics]
    lines += [f"filters: {json.dumps(form.to_dict().get('filter_list', []))}", f"target: {sample.target}"]
    if form.output_type == "generate_until":
        lines.append(f"generation: {json.dumps(form.generation_kwargs)}")
    prompts = list(dict.fromkeys(str(getattr(instance.request, "context", "")) for instance in sample.instances))
    scored = dict.fromkeys(repr(getattr(i.request, "continuation", "")) for i in sample.instances)
    text = "\n".join([*lines, *(f"scored: {item}" for item in scored), *(f"-----\n{prompt}" for prompt in prompts), ""])
    path = GOLDEN / f"{name.replace('@', '.')}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path.name} was missing and is written: look at it")
    assert text == path.read_text(), "raise the version of the protocol, and remove the file to write it again"


def digest(text: str) -> tuple[str, int]:
    return hashlib.sha256(text.encode()).hexdigest()[:16], len(text)


def shots_of(name: str) -> list[dict[str, str]]:
    config = TaskManager().load(name)[0]
    return config.fewshot_config.samples  # type: ignore[union-attr, return-value]


def test_the_four_problems_are_those_of_lm_eval() -> None:
    folder = lm_eval_folder()
    if folder is None:
        pytest.skip("lm-eval is not installed")
    source = (folder / "minerva_math" / "utils.py").read_text()
    function = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "list_fewshot_samples")
    assert isinstance(function, ast.FunctionDef)
    returned = function.body[0]
    assert isinstance(returned, ast.Return)
    theirs = [{key: shot[key] for key in ("problem", "solution")} for shot in ast.literal_eval(returned.value)]  # type: ignore[arg-type]
    assert shots_of("math_algebra@minerva") == theirs


@pytest.mark.parametrize("task", OLMES_SHOTS)
def test_the_shots_of_olmes_are_those_of_its_list_in_order(task: str) -> None:
    file = SHOTS / f"{OLMES_SHOTS[task]}.jsonl"
    if not file.exists():
        pytest.skip("the rows of the OLMES shots are not here")
    published = [json.loads(line) for line in file.read_text().splitlines()]
    form = form_of(f"{task}@olmes-mc", shots=published[::-1])
    assert form.num_fewshot == 5
    assert form.fewshot_docs() == published[:5]


def test_a_missing_row_is_named() -> None:
    with pytest.raises(DataError, match=r"olmes\.yaml.*fewshot_rows.*no row .* has id='MCAS_2007_8_5189'"):
        prompt_of(form_of("arc_easy@olmes-mc", shots=[ARC]), shots=None)


def test_rows_that_cannot_be_told_apart_are_refused() -> None:
    twins = [{**ARC, "id": "MCAS_2007_8_5189"}, {**ARC, "id": "MCAS_2007_8_5189", "question": "Another?"}]
    with pytest.raises(DataError, match="2 different rows"):
        prompt_of(form_of("arc_easy@olmes-mc", shots=twins), shots=None)


def test_olmes_draws_as_python_does() -> None:
    import random

    config = TaskManager().load("piqa@olmes-mc")[0]
    rows = [{**ROWS["piqa"], "goal": f"goal {number}"} for number in range(1838)]
    form = Task.from_config(config.replace(custom_dataset=lambda **_: {"validation": rows, "train": rows})).form
    assert list(form.eval_docs) == random.Random(1234).sample(rows, 1000)


def test_the_unconditional_prompt_of_olmes_is_its_answer_prompt() -> None:
    form = form_of("arc_challenge@olmes-rc")
    form = Task.from_config(form.config.replace(num_fewshot=0)).form
    requests = [instance.request for instance in form.sample(0, ARC).instances]
    assert [str(getattr(request, "context", "")) for request in requests[4:]] == ["Answer:"] * 4


def test_a_protocol_is_part_of_the_identity() -> None:
    config = form_of("mmlu_anatomy@olmes-mc").config
    other = Task.from_config(config.replace(protocol="olmes 99")).form
    assert Task.from_config(config).form.identity() != other.identity()
    assert Task.from_config(config).form.to_dict()["protocol"] == "olmes 1"
    assert form_of("gsm8k@olmes").config.protocol == "olmes 2"


def test_a_run_under_a_protocol_names_the_tasks_that_it_does_not_define() -> None:
    manager = TaskManager(design=Design(protocol="olmes"))
    names = [config.form_name for config in manager.load("arc_easy,gsm8k")]
    assert names == ["arc_easy@olmes-mc", "arc_easy@olmes-rc", "gsm8k@olmes"]
    with pytest.raises(UsageError, match="'olmes' does not define quiz, triviaqa"):
        manager.load("arc_easy,quiz,triviaqa")
    with pytest.raises(UsageError, match="no protocol 'olmess'"):
        TaskManager(design=Design(protocol="olmess")).load("arc_easy")
    with pytest.raises(UsageError, match="names '@mcqa'"):
        manager.load("arc_easy@mcqa")


def test_the_forms_of_lm_eval_are_a_protocol_too() -> None:
    configs = TaskManager(design=Design(protocol="lm-eval")).load("arc_easy,gsm8k")
    assert [config.form_name for config in configs] == ["arc_easy@lm-eval", "gsm8k@lm-eval"]


def test_the_suite_has_both_forms_of_its_tasks() -> None:
    names = {config.form_name for config in TaskManager().load("olmes-core")}
    assert {"arc_easy@olmes-mc", "arc_easy@olmes-rc", "mmlu_virology@olmes-rc"} <= names
    assert len(names) == 2 * (9 + 57)


def test_users_write_their_own(tmp_path: Path) -> None:
    (tmp_path / "protocols").mkdir()
    file = tmp_path / "protocols" / "mine.yaml"
    file.write_text("protocol: mine\nversion: 3\ntasks:\n  quiz:\n    mine: {type: mcqa, question_prefix: 'Q: '}\n")
    config = TaskManager(tmp_path).load("quiz@mine")[0]
    assert config.protocol == "mine 3"
    assert config.format is not None
    assert config.format.question_prefix == "Q: "
    file.write_text("protocol: mine\nversion: 3\ntasks:\n  quiz:\n    mine: {type: mcqa, question_prefi: 'Q: '}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml:5.*question_prefi"):
        TaskManager(tmp_path).load("quiz@mine")
    file.write_text("protocol: mine\ntasks: {}\n")
    with pytest.raises(ConfigError, match="needs 'version'"):
        TaskManager(tmp_path).load("quiz@mine")


def test_what_a_protocol_only_approximates_is_said_of_its_forms(tmp_path: Path) -> None:
    notes = [str(note) for note in form_of("gpqa_diamond@helm").notes]
    assert any("gpqa@helm may differ from what was published in the order of the options" in note for note in notes)
    assert not any("may differ" in str(note) for note in form_of("arc_easy@olmes-mc").notes)
    (tmp_path / "protocols").mkdir()
    file = tmp_path / "protocols" / "mine.yaml"
    entries = "tasks:\n  quiz:\n    mine: {type: mcqa}\n"
    file.write_text(f"protocol: mine\nversion: 1\nunchecked: [the order]\n{entries}")
    form = Task.from_config(TaskManager(tmp_path).load("quiz@mine")[0]).form
    assert "quiz@mine may differ from what was published in the order" in str(form.notes[0])
    file.write_text(f"protocol: mine\nversion: 1\n{entries}")
    assert read_protocols([tmp_path])["mine"].unchecked == {}  # nothing is known to differ
    file.write_text(f"protocol: mine\nversion: 1\nunchecked: {{quizz: [the order]}}\n{entries}")
    with pytest.raises(ConfigError, match=r"mine\.yaml:3.*no task 'quizz'; did you mean 'quiz'"):
        TaskManager(tmp_path).load("quiz@mine")
    file.write_text(f"protocol: mine\nversion: 1\nversions: {{quizz: 2}}\n{entries}")
    with pytest.raises(ConfigError, match="no task 'quizz'"):
        TaskManager(tmp_path).load("quiz@mine")
    file.write_text(f"protocol: mine\nversion: 1\nversions: [[quiz, 2]]\n{entries}")
    with pytest.raises(ConfigError, match=r"mine\.yaml:3: versions: expected a version for each task"):
        TaskManager(tmp_path).load("quiz@mine")
    file.write_text(f"protocol: mine\nversion: 1\nunchecked: {{quiz: the order}}\n{entries}")
    with pytest.raises(ConfigError, match="expected a list of texts"):
        TaskManager(tmp_path).load("quiz@mine")


def test_every_approximation_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "protocols"]) == 0
    printed = capsys.readouterr().out
    texts = [text for protocol in PROTOCOLS.values() for of_task in protocol.unchecked.values() for text in of_task]
    assert texts
    assert all(text in printed for text in texts)
