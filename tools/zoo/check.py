"""One model of the zoo: what the engine computes with it, against its own forward pass and its own `generate`."""

from __future__ import annotations

import contextlib
import copy
import logging
import random
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.model import Counters
from multiform.models.tokenizer import Encoder
from multiform.models.torch import device
from multiform.models.torch.engine import CausalEngine
from multiform.models.torch.forward import CausalLM, ScoringWay
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.planner import Planner
from multiform.models.torch.sampling import Generation, Sampling
from multiform.models.torch.seq2seq import Seq2SeqEngine, decoder_tokens
from multiform.models.torch.structure import accepted_options, rope_kinds
from multiform.models.torch.transformers_loop import greedy_config, prompt_inputs
from multiform.requests import Completion, LLOutput
from tools.zoo.models import POSITIONS, TOKENS, VOCABULARY
from tools.zoo.peer import PeerScores, lm_eval_scores

#: Tokens in a forward pass, so that every plan has several.
PASS_TOKENS = 48
#: The longest prompt with its completion, beyond every window and near the last position. Some contexts are longer.
LENGTH = 150
NEW_TOKENS = 8
#: The largest difference of a log-likelihood for each of its tokens.
TOLERANCE = 3e-5
_LIMITS: dict[str, Any] = {"limits": BatchLimits(8, 10**6), "generation_limits": BatchLimits(4, 10**6)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came out for one architecture; `problem` says why there is nothing to compare.

    `lm_eval` is the largest difference from lm-eval, in words where that is more than the tolerance, or where it fails.
    """

    name: str
    scoring: str = ""
    decoding: str = ""
    reasons: tuple[str, ...] = ()
    difference: float = 0.0
    wrong_flags: int = 0
    wrong_texts: int = 0
    lm_eval: str = ""
    problem: str = ""
    #: What a brief trial needs to know, of models that are the same at every length: class, attention, and the names of
    #: the ways in which they were computed.
    verified: tuple[str, str, str] | None = None

    @property
    def is_right(self) -> bool:
        """Whether every number, flag and text is the model's own."""
        return self.difference <= TOLERANCE and not self.wrong_flags and not self.wrong_texts

    @property
    def agrees_with_lm_eval(self) -> bool:
        """Whether lm-eval works, and gives the same numbers, flags and texts."""
        try:
            return float(self.lm_eval) <= TOLERANCE
        except ValueError:
            return False


class NumberTokenizer:
    """Decodes tokens to their numbers."""

    eos_token_id, pad_token_id = TOKENS["eos_token_id"], TOKENS["pad_token_id"]

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        special = TOKENS.values() if skip_special_tokens else ()
        return " ".join(str(token) for token in tokens if token not in special)


def check(name: str, model: PreTrainedModel) -> Finding:
    """Score and generate with a model, and compare with what transformers gives each sequence alone."""
    judge = copy.deepcopy(model)
    with _small_passes(model.device.type), _warnings() as reasons:
        if model.config.is_encoder_decoder:
            return _check_seq2seq(name, model, judge, reasons)
        return _check_causal(name, model, judge, reasons)


def _check_causal(name: str, model: PreTrainedModel, judge: PreTrainedModel, reasons: list[str]) -> Finding:
    whole, prompts = _branching_pairs(), _prompts(LENGTH - NEW_TOKENS)
    try:
        expected = [_judged(_plain(judge, pair), pair) for pair in whole]
    except Exception as error:  # noqa: BLE001 - whatever the model itself raises
        return Finding(name=name, problem=_first_line(error))
    with contextlib.suppress(Exception):  # those that count positions from another number than 0 have fewer
        expected += [_judged(_plain(judge, pair), pair) for pair in map(_truncated, _long_pairs())]
        whole += _long_pairs()
    pairs = [_truncated(pair) for pair in whole]
    longest = max(len(pair.tokens) - 1 for pair in pairs)
    planner = Planner(CausalLM(model), max_length=POSITIONS)
    way = planner.scoring(longest)  # tried even though there are few sequences
    tokenizer: Any = NumberTokenizer()
    engine = CausalEngine(planner=planner, tokenizer=tokenizer, **_LIMITS, counters=Counters())
    outputs = dict(engine.score(pairs))
    texts = _texts(judge, prompts)
    completions = dict(engine.generate(_generations(prompts)))
    return _compared(
        Finding(
            name=name,
            scoring="shared" if way.is_planned else way.name.replace("_", " ").lower(),
            decoding=planner.decoding(LENGTH).name.lower(),
            reasons=tuple(dict.fromkeys(reasons)),
            verified=_ways(planner, way),
        ),
        outputs,
        expected,
        completions,
        texts,
        lm_eval_scores(judge, whole, prompts, NEW_TOKENS, tokenizer),
    )


def _ways(planner: Planner, way: ScoringWay) -> tuple[str, str, str] | None:
    """The class and attention of a model that is the same at every length, and the ways that were compared."""
    if not planner.is_known or way is not planner.mode:
        return None
    model = planner.lm.model
    kind = f"{type(model.base_model).__name__} {model.config._attn_implementation}"
    return kind, way.name, planner.decoding(LENGTH).name


def _check_seq2seq(name: str, model: PreTrainedModel, judge: PreTrainedModel, reasons: list[str]) -> Finding:
    pairs, prompts = _seq2seq_pairs(), _prompts(LENGTH - 30)
    try:
        expected = [_judged(_plain_seq2seq(judge, pair), pair) for pair in pairs]
    except Exception as error:  # noqa: BLE001 - whatever the model itself raises
        return Finding(name=name, problem=_first_line(error))
    tokenizer: Any = NumberTokenizer()
    engine = Seq2SeqEngine(model, tokenizer, max_length=POSITIONS, **_LIMITS, counters=Counters())
    outputs = dict(engine.score(pairs))
    completions = dict(engine.generate(_generations(prompts)))
    verdicts = {question.partition(" ")[0]: verdict for question, verdict in engine.records.verdicts.items()}
    finding = Finding(name=name, reasons=tuple(reason for reason in dict.fromkeys(reasons) if "encoder" not in reason))
    finding = Finding(**{**_fields(finding), **verdicts})
    texts = _texts(judge, prompts)
    peer = lm_eval_scores(judge, pairs, prompts, NEW_TOKENS, NumberTokenizer())
    return _compared(finding, outputs, expected, completions, texts, peer)


def _compared(
    finding: Finding,
    outputs: dict[int, LLOutput],
    expected: Sequence[LLOutput],
    completions: dict[int, Completion],
    texts: Sequence[str] | None,
    peer: PeerScores | None,
) -> Finding:
    """The finding with the differences; without texts, the model's own `generate` fails and none can be compared."""
    difference, wrong_flags, wrong_texts = _differences(outputs, expected, completions, texts)
    return Finding(
        **{
            **_fields(finding),
            "difference": difference,
            "wrong_flags": wrong_flags,
            "wrong_texts": wrong_texts,
            "lm_eval": _difference_from_lm_eval(outputs, completions, peer),
            "reasons": finding.reasons if texts is not None else (*finding.reasons, "its own `generate` fails"),
        }
    )


def _differences(
    outputs: dict[int, LLOutput],
    expected: Sequence[LLOutput],
    completions: dict[int, Completion],
    texts: Sequence[str] | None,
) -> tuple[float, int, int]:
    """The largest difference of a log-likelihood for each token, and the numbers of flags and texts that differ."""
    pairs = [(outputs[index], judged) for index, judged in enumerate(expected)]
    difference = max(abs(ours.loglikelihood - judged.loglikelihood) / (judged.tokens or 1) for ours, judged in pairs)
    flags = sum(ours.is_greedy != judged.is_greedy for ours, judged in pairs)
    return difference, flags, sum(completions[index].text != text for index, text in enumerate(texts or ()))


def _difference_from_lm_eval(
    outputs: dict[int, LLOutput], completions: dict[int, Completion], peer: PeerScores | None
) -> str:
    """The differences from lm-eval in words, the flags and texts only where they differ."""
    if peer is None or peer.outputs is None:
        return "fails"
    difference, flags, texts = _differences(outputs, peer.outputs, completions, peer.texts)
    parts = [f"{difference:.0e}", f"{flags} flags" if flags else "", f"{texts} texts" if texts else ""]
    if peer.texts is None:
        parts.append("generation fails")
    return ", ".join(part for part in parts if part)


def _fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__slots__}


def _branching_pairs() -> list[Pair]:
    """Pairs with common prefixes of several lengths; each has siblings, and a continuation that begins inside."""
    numbers = random.Random(3)
    trunk = _tokens(numbers, LENGTH)
    pairs = []
    for depth in (5, LENGTH // 3, LENGTH // 2, LENGTH - 12):
        for _ in range(2):
            end = _tokens(numbers, 9)
            pairs.append(Pair(array("i", [*trunk[:depth], *end]), depth + 4))
            pairs.append(Pair(array("i", [*trunk[:depth], *end[:4], *_tokens(numbers, 2)]), depth + 4))
    return pairs


def _long_pairs() -> list[Pair]:
    """Pairs with contexts beyond the last position, which lose their beginning."""
    numbers = random.Random(9)
    context = _tokens(numbers, POSITIONS + 40)
    return [Pair(array("i", [*context, *_tokens(numbers, count)]), len(context)) for count in (1, 4, 6)]


def _truncated(pair: Pair) -> Pair:
    return Encoder.fit(pair, POSITIONS, "a continuation")


def _seq2seq_pairs() -> list[Pair]:
    numbers = random.Random(3)
    contexts = [_tokens(numbers, length) for length in (5, 40, 75, LENGTH - 30, LENGTH - 30, 9)]
    return [
        Pair(array("i", [*context, *_tokens(numbers, length)]), len(context))
        for context in contexts
        for length in (1, 3, 8)
    ]


def _prompts(length: int) -> list[list[int]]:
    numbers = random.Random(5)
    shared = _tokens(numbers, length // 2)
    ends = [length - len(shared), 7, 30]
    return [*([*shared, *_tokens(numbers, end)] for end in ends), *(_tokens(numbers, size) for size in (4, 20))]


def _tokens(numbers: random.Random, count: int) -> list[int]:
    return [numbers.randrange(len(TOKENS), VOCABULARY) for _ in range(count)]


def _generations(prompts: Sequence[list[int]]) -> list[Generation]:
    return [
        Generation(index=index, prompt=prompt, limit=NEW_TOKENS, stops=(), sampling=Sampling(), rng=random.Random(1))
        for index, prompt in enumerate(prompts)
    ]


@torch.no_grad()
def _plain(judge: PreTrainedModel, pair: Pair) -> Tensor:
    """The logits at a pair's continuation, by the model alone."""
    ids = torch.tensor([pair.tokens[:-1].tolist()], device=judge.device)
    logits: Tensor = _fresh(judge)(input_ids=ids, **accepted_options(judge.forward, use_cache=False)).logits[0]
    return logits[pair.start - 1 :]


def _fresh(judge: PreTrainedModel) -> PreTrainedModel:
    """The model as if it had computed nothing before: where it remembers the longest sequence, a copy."""
    kinds = [kind for kind, _ in rope_kinds(judge.config.get_text_config())]
    return copy.deepcopy(judge) if "dynamic" in kinds else judge


@torch.no_grad()
def _plain_seq2seq(judge: PreTrainedModel, pair: Pair) -> Tensor:
    decoder_ids = torch.tensor([decoder_tokens(judge, pair.continuation)], device=judge.device)
    ids = torch.tensor([pair.context], device=judge.device)
    logits: Tensor = judge(input_ids=ids, decoder_input_ids=decoder_ids, use_cache=False).logits[0]
    return logits


def _judged(logits: Tensor, pair: Pair) -> LLOutput:
    lines, targets = logits.cpu().double().log_softmax(-1), torch.tensor(pair.continuation)
    greedy = bool((lines.argmax(-1) == targets).all())
    return LLOutput(float(lines[range(len(targets)), targets].sum()), greedy, len(targets))


def _texts(judge: PreTrainedModel, prompts: Sequence[list[int]]) -> list[str] | None:
    """The text that `generate` of transformers gives each prompt alone; None where it fails."""
    tokenizer = NumberTokenizer()
    texts = []
    for prompt in prompts:
        ids = torch.tensor([prompt], device=judge.device)
        config = greedy_config(judge, NEW_TOKENS, tokenizer.pad_token_id)
        config.use_cache = getattr(judge.config, "use_cache", None) is not False
        try:
            output = _fresh(judge).generate(**prompt_inputs(judge, ids), generation_config=config)
        except Exception:  # noqa: BLE001 - whatever the model itself raises
            return None
        start = 1 if judge.config.is_encoder_decoder else len(prompt)
        texts.append(tokenizer.decode(output[0, start:].tolist(), skip_special_tokens=True))
    return texts


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


@contextmanager
def _small_passes(kind: str) -> Iterator[None]:
    """Small forward passes on devices of that kind."""
    before = dict(device.PASS_TOKENS)
    device.PASS_TOKENS[kind] = PASS_TOKENS
    try:
        yield
    finally:
        device.PASS_TOKENS.clear()
        device.PASS_TOKENS.update(before)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """The reasons that the engine logs, in the order in which they come."""
    reasons: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reasons.append(record.getMessage().rpartition("which takes longer: ")[2])

    logger, collector = logging.getLogger("multiform"), Collector()
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield reasons
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
