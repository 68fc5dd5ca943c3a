"""The planner: how a model's requests are computed, and how large forward passes and the cached prefix are.

Everything that is faster than the model's plain forward pass is verified by a trial before it is used (`trial`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
import transformers

from multiform.hashing import sha256, source_hash
from multiform.models.torch.device import device_of, pass_tokens, prefix_budget, run_in_memory
from multiform.models.torch.forward import Forward, LMHead, Mode
from multiform.models.torch.kept_prefixes import KeptPrefixes
from multiform.models.torch.scoring import Grouping, Resume
from multiform.models.torch.structure import (
    POSITIONS,
    SHORTEST,
    VerifiedWays,
    has_plain_cache,
    is_known,
    is_library_class,
    obstacle,
    plain_attention_length,
    rounds_by_pass,
    scaled_after,
    sliding_window,
    verified_ways,
)
from multiform.models.torch.trial import (
    BRIEF,
    BRIEF_PASSES,
    PASSES,
    SHORT,
    brief_trial,
    candidate_modes,
    decoding_trial,
    first_grouping,
    first_mode,
    first_resume,
    measure_state_bytes,
    measure_token_bytes,
    trial_length,
    trial_precision,
)
from multiform.paths import cache_root, replace_file

logger = logging.getLogger("multiform")

#: The verdict of a trial in which no way gave the model's own results.
NONE = "none"
#: The length of a trial, times this, is the number of tokens from which on it is worth its time: it computes about a
#: quarter of them, of which nothing is saved in the worst case.
WORTH_TRIAL = 24
#: Prefixes that are kept for later calls may take one part in that many of the budget, and so many bytes.
KEPT_SHARE = 4
KEPT_BYTES = 2**30
OTHER_RESULTS = "it gives other results with a prefix tree"


class Decoding(Enum):
    """How completions are decoded, from the fastest way to the one that every model supports."""

    #: In batches that share the KV cache of common prefixes.
    SHARED = auto()
    #: In batches with one KV cache, padded at the left.
    PADDED = auto()
    #: One at a time, by the model's own `generate`, after a copy of the state of a common prefix.
    RESUMED = auto()
    #: One at a time, by the model's own `generate`.
    ALONE = auto()
    #: One at a time, by a plain forward pass for every token: for models without `generate`.
    UNCACHED = auto()


#: A way of computing requests, which trials choose.
Way = TypeVar("Way", Mode, Resume, Grouping, Decoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSupport:
    """Sequences of up to `max_length` tokens can share prefixes; `reason` says why longer ones cannot.

    `mode` is the fastest one that gave the model's own results on short sequences, None where none did. `token_bytes`
    is the memory of the keys and values of one token.
    """

    max_length: int
    reason: str = ""
    token_bytes: int = 1
    mode: Mode | None = None


class Planner:
    """How one model's requests are computed.

    `budget` is the model argument `prefix_budget`, and `max_length` the model's context length. With a budget of 0
    nothing is shared: sequences are scored in batches, as lm-eval scores them.
    """

    def __init__(self, head: LMHead, *, budget: int | str | None = None, max_length: int = 2**31) -> None:
        self.head = head
        self.prefix_budget = budget
        self.shares_prefixes = budget not in (0, "0")
        self.max_length = max_length
        self.records = TrialRecords()
        self._keeps_prefixes = False
        self._kept: KeptPrefixes | None = None
        #: Tokens that were computed alone, as a trial was not worth its time.
        self.computed_alone = 0
        self._config = head.model.config.get_text_config()
        self._warned: set[str] = set()

    def keep_verdicts(self, identity: str) -> None:
        """Keep the verdicts of trials for later runs of the model with this identity."""
        model = self.head.model
        self.records = TrialRecords(f"{identity} {device_of(model).type} {model.config._attn_implementation}")

    def keep_prefixes(self, keep: bool) -> None:
        """Whether prefixes that recur stay in memory for later calls; otherwise those that are there are dropped."""
        self._keeps_prefixes = keep
        if not keep:
            self._kept = None

    @property
    def kept_prefixes(self) -> KeptPrefixes | None:
        """The prefixes of earlier calls that are in memory; None where none are kept."""
        if self._keeps_prefixes and self._kept is None:
            most = min(self.budget // KEPT_SHARE, KEPT_BYTES // max(1, self.support.token_bytes))
            self._kept = KeptPrefixes(most)
        return self._kept

    @cached_property
    def is_known(self) -> bool:
        """Whether the model behaves the same at every length, so that a short trial is enough."""
        return is_known(self.head.model)

    @cached_property
    def verified_ways(self) -> VerifiedWays | None:
        """What the zoo found for the model's class; None where that does not apply."""
        return verified_ways(self.head.model)

    @cached_property
    def support(self) -> PrefixSupport:
        """Whether the model can share prefixes, by its structure and by a trial of short sequences."""
        max_length, reason = plain_attention_length(self._config)
        problem = obstacle(self.head.model) or (reason if max_length < SHORTEST else "")
        if problem:
            return PrefixSupport(max_length=0, reason=problem)
        name, token_bytes = self.records.verdict("short", self._try_short, otherwise=f"{NONE} 1").split()
        if not int(token_bytes):
            return PrefixSupport(max_length=0, reason="it keeps no keys and values for each token")
        if name == NONE:
            return PrefixSupport(max_length=0, reason=OTHER_RESULTS, token_bytes=int(token_bytes))
        return PrefixSupport(max_length=max_length, reason=reason, token_bytes=int(token_bytes), mode=Mode[name])

    def _try_short(self) -> str:
        """The mode of short sequences and the memory of a token, such as "TREE_ATTENTION 46080"."""
        length = min(SHORT, self.short_length, self.max_length - 1)
        if self.verified_ways and length >= BRIEF:
            mode = Mode[self.verified_ways.scoring]
            trial, token_bytes = brief_trial(self.head)
            if token_bytes and trial.allows_mode(mode, self.pass_size, BRIEF_PASSES):
                return f"{mode.name} {token_bytes}"
        token_bytes = measure_token_bytes(self.head)
        if not token_bytes:
            return f"{NONE} 0"
        best = first_mode(self.head, length, candidate_modes(self.head), self.pass_size)
        return f"{best.name if best else NONE} {token_bytes}"

    @cached_property
    def forward(self) -> Forward:
        """Forward passes of decoding, in the mode of short sequences."""
        return Forward(self.head, self.support.mode or Mode.MASKED)

    @cached_property
    def budget(self) -> int:
        """The number of tokens that may stay in the KV cache between forward passes."""
        return prefix_budget(self.prefix_budget, self.support.token_bytes, device_of(self.head.model))

    @cached_property
    def state_budget(self) -> int:
        """The tokens whose states may be kept, in memory: a state takes as much as that of a short sequence does."""
        state_bytes = max(1, measure_state_bytes(self.head, self.max_length) // SHORT)
        return prefix_budget(self.prefix_budget, state_bytes, device_of(self.head.model))

    @cached_property
    def decode_tokens(self) -> int:
        """The tokens that all sequences being decoded may have together, by the memory that is free."""
        return prefix_budget(None, self.support.token_bytes, device_of(self.head.model))

    @property
    def pass_size(self) -> int:
        """The tokens in a forward pass.

        A pass of several branches may have more tokens than the model has positions, which not every model takes.
        """
        size = pass_tokens(device_of(self.head.model))
        if not self.is_known:
            size = min(size, getattr(self._config, POSITIONS, None) or size)
        return size if self.head.separable else min(size, self.head.max_tokens)

    @cached_property
    def short_length(self) -> int:
        """The longest sequence on which sliding windows and scaled positions have no effect, by the configuration."""
        return min(plain_attention_length(self._config)[0], sliding_window(self._config) or 2**31)

    def is_worth_trial(self, longest: int, work: int) -> bool:
        """Whether sequences of up to `longest` tokens, `work` tokens in all, are worth the trial that they need.

        A small run takes less time if each sequence is computed alone, which needs no trial.
        """
        length = trial_length(longest, self.max_length - 1)
        if self.is_known or any(question.endswith(f" of {length}") for question in self.records.verdicts):
            return True
        return self.computed_alone + work > WORTH_TRIAL * length

    def scoring(self, longest: int) -> Mode | Resume | Grouping:
        """How sequences of up to that many tokens are scored: by plan, from copied states, or in batches.

        The log says why where nothing is shared.
        """
        if way := self.scoring_mode(longest) or self.resume(longest):
            return way
        if self.shares_prefixes:
            self._warn(self._reason(longest))
        return self.grouping(longest)

    def scoring_mode(self, longest: int) -> Mode | None:
        """The mode for scoring sequences of up to that many tokens by plan; None where none fits."""
        if not self.shares_prefixes or longest > self.support.max_length:
            return None
        first = self.support.mode
        if self.is_known and longest <= self.short_length:
            return first
        most = self.support.max_length if longest > self.short_length else self.short_length
        length = trial_length(longest, min(self.max_length - 1, most))

        def trial() -> Mode | None:
            # Modes that failed on short sequences are not tried again.
            modes = [mode for mode in candidate_modes(self.head) if first and mode.value >= first.value]
            return first_mode(self.head, length, modes, self.pass_size)

        return self._choose(Mode, f"plan of {length}", trial)

    def resume(self, longest: int) -> Resume | None:
        """How sequences of up to that many tokens resume from the state of a common prefix; None where they cannot."""
        if not self.shares_prefixes:
            return None
        length = trial_length(longest, self.max_length - 1)
        return self._choose(
            Resume,
            f"states of {length}",
            lambda: first_resume(self.head, length) if self._may_resume(length) else None,
        )

    def grouping(self, longest: int) -> Grouping:
        """Which sequences of up to that many tokens may be scored in one batch."""
        if self.is_known:
            return Grouping.PADDED
        length = trial_length(longest, self.max_length - 1)
        grouping = self._choose(
            Grouping,
            f"batches of {length}",
            lambda: Grouping.ALONE if self._depends_on_batch else first_grouping(self.head, length),
        )
        if grouping is Grouping.EQUAL_LENGTHS:
            self._warn("padding changes its results, so that only sequences of one length go into a batch")
        if grouping in (Grouping.ALONE, None):
            self._warn("its results change in a batch, so that each sequence is computed alone")
        return grouping or Grouping.ALONE

    def decoding(self, longest: int) -> Decoding:
        """How sequences of up to that many tokens, prompts included, are decoded."""
        if self.is_known and longest <= self.short_length and self._shares_short_prefixes:
            return Decoding.SHARED
        length = trial_length(longest, self.max_length)
        return self._choose(Decoding, f"decoding {length}", lambda: self._try_decoding(length)) or Decoding.ALONE

    def warn_about_decoding(self, decoding: Decoding, longest: int) -> None:
        """Log why sequences of up to that many tokens are not decoded together."""
        if decoding not in (Decoding.SHARED, Decoding.RESUMED):
            slides = longest > self.short_length and self._shares_short_prefixes
            has_reason = slides or longest > self.support.max_length
            reason = self._reason(longest) if has_reason else "its attention is of a special kind"
            self._warn(reason, "completions are generated without shared prefixes")

    def _choose(self, ways: type[Way], question: str, trial: Callable[[], Way | None]) -> Way | None:
        """The way that a trial chooses, now or earlier; None where it chooses none or runs out of memory."""

        def verdict() -> str:
            way = trial()
            return way.name if way else NONE

        name = self.records.verdict(question, verdict, otherwise=NONE)
        return None if name == NONE else ways[name]

    def _reason(self, longest: int) -> str:
        """Why sequences of up to that many tokens do not share prefixes."""
        if longest > self.support.max_length:
            return self.support.reason
        return f"its attention slides over {self.short_length} tokens" if longest > self.short_length else OTHER_RESULTS

    @cached_property
    def _shares_short_prefixes(self) -> bool:
        verdict = self.records.verdict("short decoding", self._try_short_decoding, otherwise=NONE)
        return verdict == Decoding.SHARED.name

    def _try_short_decoding(self) -> str:
        """Whether short sequences can be decoded with shared prefixes, as the name of a verdict."""
        if not self._can_attend:
            return NONE
        length = min(SHORT // 2, self.short_length, self.max_length)
        is_verified = self.verified_ways is not None and self.verified_ways.decoding == Decoding.SHARED.name
        if is_verified and length >= BRIEF and self._decodes_shared(BRIEF, BRIEF_PASSES):
            return Decoding.SHARED.name
        return Decoding.SHARED.name if self._decodes_shared(length, PASSES) else NONE

    def _decodes_shared(self, length: int, passes: int) -> bool:
        trial = decoding_trial(self.head, length, by_generate=False)
        return trial is not None and trial.allows_shared_prefixes(self.forward, self.pass_size, passes)

    @property
    def _can_attend(self) -> bool:
        """Whether the model's layers call an attention function that can be replaced."""
        return self.support.mode is not None and bool(self.head.model._supports_attention_backend)

    @cached_property
    def _depends_on_batch(self) -> bool:
        """Whether the results of a sequence depend on the others in its forward pass, if only by rounding."""
        return rounds_by_pass(self.head.model)

    def _may_resume(self, length: int) -> bool:
        """Whether the configuration lets sequences of that length resume from a state."""
        return self.shares_prefixes and not self._depends_on_batch and length <= scaled_after(self._config)

    def _try_decoding(self, length: int) -> Decoding:
        """The fastest way to decode sequences of that length that gives the model's own results."""
        model = self.head.model
        if not model.can_generate():
            return Decoding.UNCACHED
        support = self.support  # before the conversion: its bytes of a token are those of the model's number type
        with trial_precision(model):
            trial = decoding_trial(self.head, length, by_generate=True)
            if trial is None:  # its own `generate` fails, as that of ProphetNet does
                return Decoding.UNCACHED
            if not is_library_class(model) and not trial.is_plain():
                return Decoding.UNCACHED
            if self._depends_on_batch:
                return Decoding.ALONE
            fits = length <= support.max_length and self._can_attend
            if fits and trial.allows_shared_prefixes(self.forward, self.pass_size):
                return Decoding.SHARED
            if has_plain_cache(model) and trial.allows_padded_batches():
                return Decoding.PADDED
            return Decoding.RESUMED if self._may_resume(length) and trial.allows_copied_states() else Decoding.ALONE

    def _warn(self, reason: str, what: str = "prefixes are not shared") -> None:
        if reason not in self._warned:
            logger.warning("%s, which takes longer: %s", what, reason)
            self._warned.add(reason)


class TrialRecords:
    """The verdicts on one model, by what was tried; in a file where the model has an identity."""

    def __init__(self, identity: str | None = None) -> None:
        self.path = _folder() / f"{_hash(identity)}.json" if identity else None
        self.verdicts = self._read_verdicts()

    def verdict(self, question: str, ask: Callable[[], str], otherwise: str) -> str:
        """The verdict on a question: the kept one, or that of a trial.

        A trial that runs out of memory gives the verdict `otherwise`, which is not kept.
        """
        if question not in self.verdicts:
            verdict = run_in_memory(ask)
            if verdict is None:
                return otherwise
            self._add(question, verdict)
        return self.verdicts[question]

    def _add(self, question: str, verdict: str) -> None:
        """Keep a verdict; where the folder cannot be written to, for this run only."""
        self.verdicts[question] = verdict
        if not self.path:
            return
        try:
            with replace_file(self.path) as file:
                file.write_text(json.dumps(self._read_verdicts() | self.verdicts, indent=1))
        except OSError:
            self.path = None

    def _read_verdicts(self) -> dict[str, str]:
        try:
            content = json.loads(self.path.read_text()) if self.path else {}
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def _folder() -> Path:
    """The folder of the records: beside the stored responses, or in the user's cache."""
    store = os.environ.get("MULTIFORM_STORE")
    return (Path(store).expanduser().parent if store else cache_root()) / "trials"


def _hash(identity: str) -> str:
    # A verdict on another version of the engine would say nothing.
    content = [identity, transformers.__version__, torch.__version__, source_hash(Path(__file__).parent)]
    return sha256("\n".join(content))[:24]
