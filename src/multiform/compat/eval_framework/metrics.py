"""eval-framework's metrics of completions that its benchmarks use: of their texts, and of other programs' checks."""

from __future__ import annotations

import importlib.util
import re
import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from multiform.compat.eval_framework.samples import BaseMetricContext, detects_languages, extract_context_metric
from multiform.errors import UsageError
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    BaseMetric,
    SingleValue,
)
from multiform.formats.dialects.metric_results import MetricResult
from multiform.imports.finder import lm_eval_finder
from multiform.imports.libraries import normalize_answer, token_f1
from multiform.scoring.metrics.text import exact_match
from multiform.scoring.outcome import TextOutcome
from multiform.tasks.functions import load_module

if TYPE_CHECKING:
    from multiform.compat.eval_framework.samples import Completion


# Of the text of a completion.


class AccuracyCompletionWithEvaluate(AccuracyCompletion):
    """The part of the right answers that the text equals, without what the patterns match in either."""

    def __init__(self, regexes_to_ignore: list[str], ignore_case: bool = False, ignore_punctuation: bool = False):
        self.regexes_to_ignore = regexes_to_ignore
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation

    def value(self, response: Completion) -> float:
        equal = [self._equals(response.completion, str(truth)) for truth in response.ground_truth_list]
        return sum(equal) / len(equal)

    def _equals(self, text: str, truth: str) -> float:
        outcome = TextOutcome(prediction=text, references=(truth,))
        options = {"ignore_case": self.ignore_case, "ignore_punctuation": self.ignore_punctuation}
        return float(exact_match(outcome, regexes_to_ignore=self.regexes_to_ignore, **options))


class AccuracyCompletionOLMES(AccuracyCompletionWithEvaluate):
    """Numbers as OLMES compares them: after ``####``, without commas, dollars and a full stop at the end."""

    def __init__(self) -> None:
        super().__init__(regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"])


class F1(SingleValue["Completion"]):
    """F1 of the words in lower case, of the right answer that it is highest for."""

    NAME = "F1"

    def normalize(self, text: str) -> str:
        return text.lower()

    def tokenize(self, text: str) -> list[str]:
        return self.normalize(text).split()

    def value(self, response: Completion) -> float:
        written = self.tokenize(response.completion)
        truths = [self.tokenize(truth) for truth in response.ground_truth_list if truth is not None]
        return max((token_f1(truth, written) for truth in truths), default=0.0)


class F1SquadNormalized(F1):
    """F1 of the words as SQuAD has them: without punctuation and articles."""

    NAME = "F1 SQuAD Normalized"

    def normalize(self, text: str) -> str:
        return normalize_answer(text)


class _Rouge(SingleValue["Completion"]):
    """F1 of what a text shares with the right answer that it is highest for, as rouge-score computes it."""

    KIND = ""

    def unavailable(self) -> str | None:
        installed = importlib.util.find_spec("rouge_score") is not None
        return None if installed else "it needs rouge-score: pip install 'multiform[metrics]'"

    def value(self, response: Completion) -> float:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([self.KIND], tokenizer=_Words())
        truths = [truth for truth in response.ground_truth_list if truth is not None]
        scores = [scorer.score(truth, response.completion)[self.KIND].fmeasure for truth in truths]
        return max(scores, default=0.0)


class _Words:
    """Splits texts at white space."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


class ROUGE_1(_Rouge):  # noqa: N801 - eval-framework's name
    """Of single words."""

    NAME, KIND = "ROUGE-1", "rouge1"


class ROUGE_2(_Rouge):  # noqa: N801 - eval-framework's name
    """Of pairs of words."""

    NAME, KIND = "ROUGE-2", "rouge2"


class ROUGE_L(_Rouge):  # noqa: N801 - eval-framework's name
    """Of the longest common subsequence of words."""

    NAME, KIND = "ROUGE-L", "rougeL"


class ROUGE_GEOMETRIC_MEAN(_Rouge):  # noqa: N801 - eval-framework's name
    """The geometric mean of the three."""

    NAME = "ROUGE-Geometric-Mean"

    def value(self, response: Completion) -> float:
        one, two, longest = (metric().value(response) for metric in (ROUGE_1, ROUGE_2, ROUGE_L))
        return float((one * two * longest) ** (1 / 3))


class DropMetricContext(BaseMetricContext):
    """The right answers, each a list of spans."""

    answer_tuples: list[list[str]]


class DropF1ExactMatch(BaseMetric["Completion"]):
    """F1 and exact match of the spans between commas, of the right answer that each is highest for."""

    NAME = "Drop F1"
    KEYS = ["f1", "exact_match"]  # noqa: RUF012 - as metrics have it

    def calculate(self, response: Completion) -> list[MetricResult]:
        values: dict[str, float | None] = dict.fromkeys(self.NAMES)
        if response.error is None:
            truths = extract_context_metric(response, DropMetricContext).answer_tuples
            spans = [span.strip() for span in response.completion.split(",") if span.strip()]
            scores = [_scores(spans or [""], truth) for truth in truths if truth and truth[0].strip()] or [(0.0, 0.0)]
            values = dict(zip(self.NAMES, map(max, zip(*scores, strict=True)), strict=True))
        return [
            MetricResult(metric_name=name, value=value, higher_is_better=True, error=response.error)
            for name, value in values.items()
        ]


def _scores(written: Sequence[str], right: Sequence[str]) -> tuple[float, float]:
    """F1 and exact match of two lists of spans."""
    spans, truths = [_normalize_span(span) for span in written], [_normalize_span(span) for span in right]
    exact = set(spans) == set(truths) and len(spans) == len(truths)
    return _aligned_f1([set(s.split()) for s in spans], [set(t.split()) for t in truths]), float(exact)


def _aligned_f1(written: list[set[str]], right: list[set[str]]) -> float:
    """The mean F1 of the best pairs of spans; a span without a partner counts as 0."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    scores = np.array([[_bag_f1(span, truth) for span in written] for truth in right])
    rows, columns = linear_sum_assignment(-scores)
    return round(float(scores[rows, columns].sum()) / max(len(written), len(right)), 2)


def _bag_f1(written: set[str], right: set[str]) -> float:
    """F1 of the words of two spans; 0 where the right one has numbers and none of them is written."""
    numbers = {word for word in right if _is_number(word)}
    if numbers and not numbers & written:
        return 0.0
    shared = len(written & right)
    precision = shared / len(written) if written else 1.0
    recall = shared / len(right) if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision or recall else 0.0


def _normalize_span(span: str) -> str:
    """The words of a span in lower case, numbers as floats, without punctuation and articles."""
    words = []
    for token in re.split(" |-", str(span).lower()):
        plain = token if _is_number(token) else token.translate(str.maketrans("", "", string.punctuation))
        number = str(float(plain)) if _is_number(plain) else plain
        words += re.sub(r"\b(a|an|the)\b", " ", number).split()
    return " ".join(words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Of checks by other programs.


class LanguageRawConsistencyChecker(BaseMetric["Completion"]):
    """Whether all that the model wrote is in the language of the question."""

    NAME = "Language Consistency Raw"

    def unavailable(self) -> str | None:
        return None if detects_languages() else "it needs the package lingua-language-detector"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return self.result(None, error=response.error)
        language, expected = response.get_raw_completion_language(), response.get_instruction_language()
        return [] if language == expected == "" else self.result(float(language == expected))


_PER_PROMPT = ("prompt_level_strict_acc", "prompt_level_loose_acc")
_PER_INSTRUCTION = ("inst_level_strict_acc", "inst_level_loose_acc")


class IFEvalMetricContext(BaseMetricContext):
    """The instructions of a prompt and their arguments."""

    key: int
    instruction_id_list: list[str]
    prompt: str
    additional_kwargs: list[dict[str, Any]]


class IFEvalMetric(BaseMetric["Completion"]):
    """The part of prompts, and of instructions, that are followed; loosely where small changes of the text count."""

    NAME = "IFEval"

    def unavailable(self) -> str | None:
        return None if _checks() is not None else "its checks are lm-eval's: pip install 'lm-eval[ifeval]'"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return [self._result(name, None, response) for name in _PER_PROMPT]
        context = extract_context_metric(response, IFEvalMetricContext)
        instructions = {**context.model_dump(exclude={"additional_kwargs"}), "kwargs": context.additional_kwargs}
        check = _checks()
        assert check is not None
        graded = check(instructions, [response.completion])
        prompts = [self._result(name, graded[name], response) for name in _PER_PROMPT]
        return prompts + [self._result(name, value, response) for name in _PER_INSTRUCTION for value in graded[name]]

    def _result(self, name: str, value: bool | None, response: Completion) -> MetricResult:
        number = None if value is None else float(value)
        return MetricResult(
            metric_name=f"{self.NAME}/{name}", value=number, higher_is_better=True, error=response.error
        )


def _checks() -> Callable[..., dict[str, Any]] | None:
    """The function of lm-eval's task that grades a text."""
    folder = lm_eval_finder.real_folder()
    file = folder / "tasks" / "ifeval" / "utils.py" if folder is not None else None
    if file is None or not file.is_file():
        return None
    function: Callable[..., dict[str, Any]] = load_module(file).process_results
    return function


class RunsCode(BaseMetric[Any]):
    """A metric that runs the model's code: it is refused before a model is asked, unless there is nothing to score."""

    def calculate(self, response: Any) -> NoReturn:
        raise UsageError(f"{self.NAME}: {self.unavailable()}", hint="score these answers with eval-framework")

    def unavailable(self) -> str:
        return "it runs the model's code in a container, and Multiform starts none"


class CodeCompletionAssertion(RunsCode):
    """Whether the last thing that the code prints is True."""

    NAME = "Code Completion Accuracy"


class CodeExecutionPassAtOneContext(BaseMetricContext):
    """What is run beside the model's code; the functions that merge code and tests and read their output, as text."""

    run_env: str
    code_prompt: str
    test_code: str
    benchmark_timeout: int = 60
    package_downloads: dict[str, str | None]
    snippet_merge_fn: str
    output_parse_fn: str


class CodeExecutionPassAtOne(RunsCode):
    """Whether the code passes its tests."""

    NAME = "code-execution-pass@1"


class CodeExecutionPassAtOneWithCodebench(CodeExecutionPassAtOne):
    """The same in the container of BigCodeBench."""

    NAME = "code-execution-pass@1-codebench"


class MultiPLEMetricContext(BaseMetricContext):
    """The beginning of the code, its tests and its language."""

    prompt: str
    tests: str
    language: str


class MultiPLECodeAssertion(RunsCode):
    """Whether prompt, completion and tests together run."""

    NAME = "MultiPL-E Code Assertion"
