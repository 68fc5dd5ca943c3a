"""The workloads: tasks on the rows of MMLU that both sides read, and the requests they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUBJECT = "high_school_biology"
#: What lm-eval's MMLU tasks begin with, where labels are scored and where texts are.
LABELS_BEGIN = "The following are multiple choice questions (with answers) about {subject}.\n\n"
TEXTS_BEGIN = "The following are questions (with answers) about {subject}.\n\n"
LABELS = "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
TEXTS = "Question: {{question.strip()}}\nAnswer:"
SAME_SHOTS = {"fewshot_split": "dev", "fewshot_config": {"sampler": "first_n"}}
OTHER_SHOTS = {"fewshot_split": "validation"}
GENERATION: dict[str, Any] = {
    "output_type": "generate_until",
    "description": TEXTS_BEGIN,
    "doc_to_text": TEXTS,
    "doc_to_target": "{{choices[answer]}}",
    "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 64, "do_sample": False, "temperature": 0.0},
    **SAME_SHOTS,
}


def scored(begin: str, text: str, choices: str | list[str], shots: dict[str, Any]) -> dict[str, Any]:
    """A multiple-choice task that ranks these choices."""
    return {
        "output_type": "multiple_choice",
        "description": begin,
        "doc_to_text": text,
        "doc_to_choice": choices,
        "doc_to_target": "answer",
        **shots,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A task with a number of examples; `needed` is the least that the issue asks of its CPU ratio at 200 documents."""

    name: str
    task: dict[str, Any]
    shots: int
    needed: float | None = None

    def config(self, subject: str = SUBJECT) -> dict[str, Any]:
        """The task as both sides read it."""
        name = f"bench_{subject}"
        return {
            "task": name,
            "dataset_path": "cais/mmlu",
            "dataset_name": subject,
            "test_split": "test",
            "num_fewshot": self.shots,
            **self.task,
            "description": self.task["description"].format(subject=subject.replace("_", " ")),
        }


LABELS_TASK = scored(LABELS_BEGIN, LABELS, ["A", "B", "C", "D"], SAME_SHOTS)
TEXTS_TASK = scored(TEXTS_BEGIN, TEXTS, "{{choices}}", SAME_SHOTS)
OTHER_TASK = scored(TEXTS_BEGIN, TEXTS, "{{choices}}", OTHER_SHOTS)
WORKLOADS = (
    Workload(name="labels, 0-shot", task=LABELS_TASK, shots=0, needed=1.7),
    Workload(name="labels, 5-shot", task=LABELS_TASK, shots=5, needed=7),
    Workload(name="texts, 0-shot", task=TEXTS_TASK, shots=0, needed=4),
    Workload(name="texts, 5-shot", task=TEXTS_TASK, shots=5, needed=16),
    Workload(name="texts, 5-shot, other shots", task=OTHER_TASK, shots=5, needed=4.4),
    Workload(name="generation, 5-shot", task=GENERATION, shots=5, needed=4),
)


def multiform_requests(config: dict[str, Any], mirror: Path, limit: int | None) -> list[list[Any]]:
    """The requests that Multiform makes: a context with a continuation or with generation arguments."""
    from multiform.forms import Task

    task = Task.from_config(dict(config), dataset_mirror=mirror)
    return [plain_request(instance.request) for instance in task.build_all_requests(limit=limit)]


def plain_request(request: Any) -> list[Any]:
    """A request of Multiform as a context with a continuation or with generation arguments."""
    from multiform.requests import GenerationRequest

    return [request.context, request.gen_kwargs if isinstance(request, GenerationRequest) else request.continuation]


def lm_eval_task(config: dict[str, Any], mirror: Path) -> Any:
    """lm-eval's task object of the same configuration, on the same rows."""
    from lm_eval.api.task import ConfigurableTask

    from tests.parity.reference import reading_from

    with reading_from(mirror):
        return ConfigurableTask(config=dict(config))


def lm_eval_requests(config: dict[str, Any], mirror: Path, limit: int | None) -> list[list[Any]]:
    """The requests that lm-eval makes."""
    task = lm_eval_task(config, mirror)
    task.set_fewshot_seed(1234)
    task.build_all_requests(limit=limit)
    return [list(instance.args) for instance in task.instances]
