"""Every example of README, CONTRIBUTING and docs runs as it is printed.

All YAML, shell and Python blocks of a page are taken out and run in a folder with the files that the page talks
about: a task is validated, a command is run, Python is executed. What stands in for what a reader has:

* `path/to/model` and `pretrained=...` are a random model of a few kilobytes;
* a model of `hf-multimodal`, of vLLM or on a server is `dummy`;
* `run` without a model uses `dummy` instead of the bundled one, and without a limit two documents of each task;
* `...` at the end of a command stands for flags of the reader: a model, a limit and a folder of tasks;
* a piece of a task file, which names no data, gets the other keys of a small task;
* datasets of the hub are a few made-up rows in a mirror, and `path/to/lm_eval` is the installed lm-eval;
* a run on Ray is one in this process, and a sweep file is `sweep.yaml`;
* a benchmark of eval-framework is a small class that imports eval-framework as those do;
* of `make` it is checked that the target, of `pip install` that the extra is there.

A block that is not run stands in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import shlex
import struct
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiform import evaluate
from multiform.cli.main import main, parser
from multiform.report.server import Viewer
from multiform.results.gate import read_accuracy_file, read_policy

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
_DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "benchmarks"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *_DOCS]

#: Commands of other programs, by their first words.
NOT_RUN = {
    "lm_eval": "lm-eval's own command, printed beside ours for comparison",
    "vllm": "vLLM's own server, which has an environment of its own (make test-vllm)",
}

#: Commands with which a shell block begins; what follows a command and is none is what it prints.
COMMANDS = ("multiform", "python", "make", "pip", *NOT_RUN)

#: Pages whose pieces of task files are about other rows than `rows.jsonl`.
ROWS_OF = {"docs/templates.md": "arc_rows.jsonl"}

#: The Python blocks that the page's commands use as a file.
SAVED_AS = {("docs/styles.md", "class _ARC(BaseTask[str]):"): ("arc.py", "my_tasks/arc.py")}

#: What shows that a definition does what the page says of it, by a line of the block.
THEN = {
    'format_name = "brackets"': """
from multiform import Task
task = Task.from_config({"task": "t", "test_split": "test", "doc_to_choice": "choices", "formats": "brackets"})
prompt = task.doc_to_text({"question": "2 + 2?", "choices": ["3", "4"], "answer": 1})
assert "(A) 3\\n(B) 4" in prompt, prompt
""",
    '@register_model("mine")': """
from multiform import evaluate
assert evaluate(model="mine", tasks="quiz@mcqa+generate", limit=2)["quiz@generate"]["sample_len"] == 2
""",
    '@register_metric("first_choice", output_type="multiple_choice")': """
from multiform import TaskConfig, evaluate
rows = [{"question": "2 + 2?", "choices": ["3", "4"], "answer": 1}]
fields = {"doc_to_choice": "choices", "test_split": "test", "custom_dataset": lambda **_: {"test": rows}}
config = TaskConfig.from_dict({"task": "t", "formats": "mcqa", "metric_list": [{"metric": "first_choice"}], **fields})
assert evaluate(model="dummy", tasks=config)["t"]["first_choice"] in (0.0, 1.0)
""",
}

ROWS = [
    {"question": f"What is {i} + {i}?", "choices": [str(2 * i), "none", "I don't know"], "answer": 0} for i in range(8)
]
ARC_ROWS = [
    {"question": f"Which {i}?", "choices": {"text": ["a", f"b{i}"], "label": ["A", "B"]}, "answerKey": "B"}
    for i in range(8)
]
PROBLEM_ROWS = [
    {"question": f"What is {i} + {i}?", "solution": f"Twice {i} is {2 * i}.", "answer": str(2 * i)} for i in range(8)
]
#: The few-shot examples that OLMES publishes by id.
OLMES = ROOT / "src/multiform/tasks/library/protocols/olmes.yaml"
ARC_SHOTS = [{**ARC_ROWS[0], "id": shot} for shot in re.findall(r'\{id: "(\S+)"\}', OLMES.read_text(encoding="utf-8"))]
BELEBELE_ROWS = [
    {"link": "l", "question_number": i, "flores_passage": "Ein Text.", "question": f"Was ist {i}?"}
    | {f"mc_answer{k}": str(i + k) for k in range(1, 5)}
    | {"correct_answer_num": "1"}
    for i in range(4)
]
MMLU_ROWS = [{"question": f"Which {i}?", "choices": ["w", "x", "y", f"z{i}"], "answer": i % 4} for i in range(6)]
GSM8K_ROWS = [{"question": f"What is {i} + {i}?", "answer": f"{i} + {i} = {2 * i}\n#### {2 * i}"} for i in range(8)]
BLIMP_ROWS = [{"sentence_good": "She sleeps.", "sentence_bad": "She sleep."}]
#: What a dataset says of its own evaluation.
EVAL_YAML = "tasks:\n  - split: test\n    field_spec: {input: question, target: answer, choices: choices}\n"
#: A script, or a module, that uses lm-eval.
SCRIPT = "import sys\nfrom lm_eval import simple_evaluate\nprint(sys.argv)\n"
#: A benchmark as eval-framework has them, with rows of its own.
BENCHMARK = """
from eval_framework.tasks.base import BaseTask
from eval_framework.tasks.task_style import MCStyle


class Doubles(BaseTask[str]):
    NAME = "Doubles"
    DATASET_PATH = "doubles"
    SAMPLE_SPLIT = FEWSHOT_SPLIT = "test"
    TASK_STYLER = MCStyle()

    def _load_dataset(self, subject):
        self.dataset = {"test": [{"number": 2}, {"number": 3}]}

    def _get_raw_question(self, item):
        return f"Twice {item['number']}?"

    def _get_choices(self, item):
        return [str(item["number"]), str(2 * item["number"])]

    def _get_correct_index(self, item):
        return 1
"""
TASK = {
    "task": "my_task",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, its text, and the line on which it begins."""

    page: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that a whole task or group is written to, as the page names it."""
        data = yaml.safe_load(self.text)
        if "models" in data:
            return "sweep.yaml"
        return f"{data.get('group') or data.get('task')}.yaml"


def blocks(page: Path) -> Iterator[Block]:
    """The YAML, shell and Python blocks of a page, fenced or, for the shell, indented."""
    name = page.relative_to(ROOT).as_posix()
    lines = page.read_text(encoding="utf-8").splitlines()
    fence: tuple[int, str] | None = None
    paragraph = 0
    for number, line in enumerate([*lines, ""], start=1):
        if fence is not None:
            if line.strip() == "```":
                start, language = fence
                text = "\n".join(lines[start : number - 1])
                if language in ("yaml", "python", "sh", "shell", "bash", "console"):
                    yield Block(name, start, "shell" if language not in ("yaml", "python") else language, text)
                fence = None
        elif line.startswith("```"):
            fence = (number, line[3:].strip())
        elif line.startswith("    ") and not paragraph:
            paragraph = number
        elif paragraph and not line.startswith("    "):
            text = "\n".join(line.strip() for line in lines[paragraph - 1 : number - 1])
            if text.removeprefix("$ ").split()[0] in COMMANDS:
                yield Block(name, paragraph, "shell", text)
            paragraph = 0


BLOCKS = [block for page in PAGES for block in blocks(page)]
#: Policies, and files of CI systems and of vLLM.
FILES_OF_OTHERS = [
    text
    for page in PAGES
    for text in re.findall(r"^```yml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("text", FILES_OF_OTHERS, ids=lambda text: str(text).partition("\n")[0])
def test_a_policy_and_files_of_other_programs_can_be_read(text: str, tmp_path: Path) -> None:
    """The policy and the baseline of a gate, and the commands in the files of CI systems."""
    path = tmp_path / "file.yaml"
    path.write_text(text)
    data = yaml.safe_load(text)
    if "default" in data:
        assert read_policy(path).tasks
    elif "model_name" in data:
        assert read_accuracy_file(path).forms
    else:
        commands = re.findall(r"(?:run: |- )(multiform .*)", text)
        assert commands
        for command in commands:
            parser().parse_args(shlex.split(command)[1:])


def test_every_page_that_shows_something_to_run_is_read() -> None:
    assert {block.page for block in BLOCKS} >= {"README.md", "CONTRIBUTING.md", "docs/tasks.md", "docs/styles.md"}
    assert {block.language for block in BLOCKS} == {"yaml", "shell", "python"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of a few kilobytes."""
    pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    from tests.parity.tiny_model import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files that the page of the block talks about."""
    block: Block = request.getfixturevalue("block")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MULTIFORM_DATASET_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    _write_rows({"rows": ROWS, "my_questions": ROWS, "arc_rows": ARC_ROWS, "problems": PROBLEM_ROWS})
    Path("exports").mkdir()
    Path("exports/part-1.csv").write_text("question;choices;answer\n2 + 2?;['3', '4'];1\n3 + 3?;['6', '7'];0\n")
    talk = {"turns": ["Name the capital of Italy in one word.", "And that of France?"], "answers": ["Rome", "Paris"]}
    Path("talks.jsonl").write_text(json.dumps(talk) + "\n")
    Path("questions.csv").write_text("question,A,B,C,D,answer\n2 + 2?,1,2,3,4,D\n3 + 3?,6,7,8,9,A\n")
    for split in ("train", "validation", "test"):
        rows = [*ARC_ROWS, *ARC_SHOTS] if split == "train" else ARC_ROWS
        _write_rows({f"mirror/allenai/ai2_arc/{name}/{split}": rows for name in ("ARC-Easy", "ARC-Challenge")})
    _write_rows(
        {f"mirror/facebook/belebele/{name}/test": BELEBELE_ROWS for name in ("hin_Deva", "deu_Latn", "swh_Latn")}
    )
    _write_rows({f"mirror/cais/mmlu/anatomy/{split}": MMLU_ROWS for split in ("dev", "validation", "test")})
    _write_rows({f"mirror/org/dataset/{name}/test": ROWS for name in ("default", "german")})
    _write_rows({f"mirror/openai/gsm8k/main/{split}": GSM8K_ROWS for split in ("train", "test")})
    _write_rows({f"mirror/exams/{subset}/test": ROWS for subset in ("us_law", "anatomy")})
    Path("mirror/org/dataset/eval.yaml").write_text(EVAL_YAML)
    _write_rows({"mmmu_pro_sample/test": [_image_row(i) for i in range(5)]})
    Path("mmmu_pro_sample/images").mkdir()
    Path("mmmu_pro_sample/images/one.png").write_bytes(_png())
    for script in ("my_script.py", "my_module.py"):
        Path(script).write_text(SCRIPT)
    benchmarks = Path("eval-framework/src/eval_framework/tasks/benchmarks")
    benchmarks.mkdir(parents=True)
    (benchmarks / "mmlu.py").write_text(BENCHMARK)
    for name in ("my_tasks", "more_tasks"):
        Path(name).mkdir()
    for name in ("my_task", "other_task", "third_task"):
        fields = {**TASK, "task": name, "dataset_path": str(tmp_path / "rows.jsonl"), "formats": "mcqa"}
        Path(f"my_tasks/{name}.yaml").write_text(json.dumps(fields))
    for place in (".", "my_tasks"):
        Path(place, "arc_easy.yaml").write_text((ROOT / "examples" / "arc_easy.yaml").read_text())
    for other in BLOCKS:
        if other.page == block.page and other.language == "yaml" and _is_whole(other):
            Path(other.file).write_text(other.text)
        if other.page == block.page and other.language == "python":
            for (page, line), files in SAVED_AS.items():
                for file in files if page == other.page and line in other.text else ():
                    Path(file).write_text(other.text)
    return tmp_path


@pytest.mark.parametrize("block", [pytest.param(block, id=f"{block.page}:{block.line}") for block in BLOCKS])
@pytest.mark.filterwarnings("ignore")
def test_the_example_runs(block: Block, folder: Path, request: pytest.FixtureRequest) -> None:
    if re.search("include_path lm_eval|path/to/lm_eval", block.text):
        _provide_lm_eval()
    if re.search(r"path/to/model|pretrained=\.\.\.", block.text):
        Path("path/to").mkdir(parents=True, exist_ok=True)
        Path("path/to/model").symlink_to(request.getfixturevalue("model"))
    Path("policy.yaml").write_text("default: {max_loss: 1}\n")
    if re.search(r"(report|view|compare|plot|advise|export|policy.yaml) results", block.text):
        for name in ("base", "tuned"):
            evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=20, output_path=f"results/{name}", log_samples=True)
    {"yaml": _validate, "shell": _run, "python": _execute}[block.language](block)


def _validate(block: Block) -> None:
    """A task or group is validated as it is, a piece of one with the rest of a task; a sweep is run."""
    if _is_whole(block) and block.file == "sweep.yaml":
        assert main(["sweep", block.file]) == 0, block
        return
    if _is_whole(block):
        name = block.file
    else:
        data = yaml.safe_load(block.text)
        base = {**TASK, "dataset_path": ROWS_OF.get(block.page, "rows.jsonl"), "output_type": "multiple_choice"}
        if "formats" in data or "template" in data:
            del base["output_type"]
        rest = {key: value for key, value in base.items() if key not in data}
        name = "piece.yaml"
        Path(name).write_text(yaml.safe_dump(rest) + block.text + "\n")
    assert main(["validate", name, "--include_path", "my_tasks"]) == 0, block


def _run(block: Block) -> None:
    """Every command of the block, one after the other."""
    ran = 0
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not words or words[0] not in COMMANDS or words[0] in NOT_RUN:
            continue
        ran += 1
        if words[0] == "make":
            assert re.search(rf"^{re.escape(words[1])}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        elif words[0] == "pip":
            _check_install(words[2:])
        elif words[0] == "python":
            done = subprocess.run([sys.executable, *_stand_ins(words[1:])], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        elif words[1] == "view":  # which would serve until it is interrupted
            with Viewer(words[2]) as viewer:
                assert viewer.runs.run_lines(), line
        else:
            code = main(_stand_ins(words[1:]))
            assert code == 0 or (code == 1 and words[1] == "lint"), line  # it may find something
    assert ran


def _execute(block: Block) -> None:
    """The block as a script; one that registers or replaces something has a process of its own."""
    path = Path("block.py")
    path.write_text(block.text + "\n" + "".join(code for line, code in THEN.items() if line in block.text))
    if re.search(r"^class |^@|compat", block.text, re.MULTILINE):
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    else:
        runpy.run_path(str(path))


def _stand_ins(words: list[str]) -> list[str]:
    """The words of a command with what a test has in the place of what a reader has."""
    asks = "run" in words[:1] or "multiform.compat.lm_eval" in words
    for flag in ("--executor", "--workers", "--resources", "--ray_address"):
        if flag in words:
            place = words.index(flag)
            words = [*words[:place], *words[place + 2 :]]
    if words[-1] == "...":
        words = [*words[:-1], "--include_path", "my_tasks"]
    words = [word.replace("pretrained=...", "pretrained=path/to/model") for word in words]
    if others := {"hf-multimodal", "vllm", "local-completions", "local-chat-completions"} & set(words):
        place = words.index("--model_args")
        words = ["dummy" if word in others else word for word in [*words[:place], *words[place + 2 :]]]
    if asks and "--model" not in words:
        words += ["--model", "dummy"]
    return [*words, "--limit", "2"] if asks and "--limit" not in words else words


def _check_install(words: list[str]) -> None:
    """Of this package it is checked that the extras are there; of others, that the Makefile installs the same."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        if word.startswith("."):
            assert set(re.findall(r"\w+", word)) <= set(extras), word
        elif not word.startswith("-"):
            assert word in (ROOT / "Makefile").read_text(), word


def _provide_lm_eval() -> None:
    """The installed lm-eval at `path/to/lm_eval`, and a few rows of the datasets that pages name."""
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or spec.origin is None:
        pytest.skip("lm-eval is not installed: pip install 'multiform[parity]'")
    package = Path(spec.origin).parent
    Path("path/to").mkdir(parents=True)
    Path("path/to/lm_eval").symlink_to(package)
    for file in (package / "tasks" / "mmlu" / "default").glob("mmlu_*.yaml"):
        subject = yaml.safe_load(file.read_text())["dataset_name"]
        _write_rows({f"mirror/cais/mmlu/{subject}/{split}": MMLU_ROWS for split in ("dev", "validation", "test")})
    _write_rows({"mirror/nyu-mll/blimp/adjunct_island/train": BLIMP_ROWS})


def _is_whole(block: Block) -> bool:
    data = yaml.safe_load(block.text)
    return "group" in data or "models" in data or "include" in data or {"task", "dataset_path"} <= set(data)


def _write_rows(files: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in files.items():
        path = Path(f"{name}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _image_row(number: int) -> dict[str, Any]:
    others = {f"image_{i}": None for i in range(2, 8)}
    question = f"<image 1> is number {number}?"
    return {"question": question, "options": "['yes', 'no']", "answer": "A", "image_1": "images/one.png", **others}


def _png() -> bytes:
    """A grey image of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")
    )
