"""The planner: how a model's requests are computed, and how large forward passes and the cached prefix are.

Everything that is faster than the model's plain forward pass is verified by a trial before it is used (`trial`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
import transformers

from multiform.hashing import sha256, source_hash
from multiform.models.torch.cache import NONE_KEPT, KeptPrefixes
from multiform.models.torch.device import OTHER_PASS_TOKENS, PASS_TOKENS, device_of, prefix_budget, run_in_memory
from multiform.models.torch.forward import CausalLM, Forward, ScoringWay
from multiform.models.torch.structure import (
    POSITIONS,
    SHORTEST,
    has_plain_cache,
    in_float32,
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
    FEW,
    PASSES,
    SHORT,
    brief_trial,
    decoding_trial,
    first_allowed,
    measure_token_bytes,
    trial_length,
)
from multiform.paths import cache_root, replace_file

logger = logging.getLogger("multiform")

#: The length of a trial, times this, is the number of tokens from which on it is worth its time: it computes about a
#: quarter of them, of which nothing is saved in the worst case.
WORTH_TRIAL = 24
#: Prefixes that are kept for later calls may take one part in that many of the budget, and so many bytes.
KEPT_SHARE = 4
KEPT_BYTES = 2**30
SPECIAL_KIND = "its attention is of a special kind"
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
Way = TypeVar("Way", ScoringWay, Decoding)


class Planner:
    """How one model's requests are computed.

    `budget` is the model argument `prefix_budget`, and `max_length` the model's context length. With a budget of 0
    nothing is shared: sequences are scored in batches, as lm-eval scores them. The verdicts of trials are kept for
    later runs of the model with this `identity`.
    """

    def __init__(
        self,
        lm: CausalLM,
        *,
        budget: int | str | None = None,
        max_length: int = 2**31,
        identity: str | None = None,
    ) -> None:
        self.lm = lm
        self.prefix_budget = budget
        self.shares_prefixes = budget not in (0, "0")
        self.max_length = max_length
        #: Whether the model behaves the same at every length, so that a short trial is enough.
        self.is_known = is_known(lm.model)
        #: The ways that the zoo found for the model's class; empty where that does not apply.
        self.verified_ways = verified_ways(lm.model)
        self.records = TrialRecords(identity, device_of(lm.model).type, lm.model.config._attn_implementation)
        #: None if prefixes are to be kept, and none has been asked for yet.
        self._kept: KeptPrefixes | None = NONE_KEPT
        #: Tokens that were computed alone, as a trial was not worth its time.
        self.computed_alone = 0
        self._config = lm.model.config.get_text_config()
        #: The longest sequence on which sliding windows and scaled positions have no effect, by the configuration.
        self.short_length = min(plain_attention_length(self._config)[0], sliding_window(self._config) or 2**31)
        #: Whether the results of a sequence depend on the others in its forward pass, if only by rounding.
        self._depends_on_batch = rounds_by_pass(lm.model)
        self._warned: set[str] = set()

    def keep_prefixes(self, keep: bool) -> None:
        """Whether prefixes that recur stay in memory for later calls; otherwise those that are there are dropped."""
        if not keep:
            self._kept = NONE_KEPT
        elif self._kept is NONE_KEPT:
            self._kept = None

    @property
    def kept_prefixes(self) -> KeptPrefixes:
        """The prefixes of earlier calls that are in memory."""
        if self._kept is None:
            self._kept = KeptPrefixes(min(self.budget // KEPT_SHARE, KEPT_BYTES // max(1, self.token_bytes)))
        return self._kept

    @cached_property
    def token_bytes(self) -> int:
        """The memory of a token's keys and values; 0 where the model returns none."""
        return measure_token_bytes(self.lm, FEW)

    @cached_property
    def shared_length(self) -> tuple[int, str]:
        """The longest sequence that may share a prefix tree, by the model's structure, and why longer ones cannot."""
        length, reason = plain_attention_length(self._config)
        problem = obstacle(self.lm.model) or (reason if length < SHORTEST else "")
        if not problem and not self.token_bytes:
            problem = "it keeps no keys and values for each token"
        return (0, problem) if problem else (length, reason)

    @cached_property
    def mode(self) -> ScoringWay | None:
        """The way in which short sequences are scored by plan, and all are decoded; None where there is none."""
        if not self.shared_length[0]:
            return None
        length = min(SHORT, self.short_length, self.max_length - 1)
        way = self._choose(f"scoring of {length}", lambda: self._try_scoring(length, shares=True), ScoringWay.ALONE)
        return way if way.is_planned else None

    @property
    def forward(self) -> Forward:
        """Forward passes of decoding, in the mode of short sequences."""
        return Forward(self.lm, self.mode or ScoringWay.MASKED)

    @cached_property
    def budget(self) -> int:
        """The number of tokens that may stay in the KV cache between forward passes."""
        return prefix_budget(self.prefix_budget, self.token_bytes, device_of(self.lm.model))

    @cached_property
    def state_budget(self) -> int:
        """The tokens whose states may be kept, in memory: a state takes as much as that of a short sequence does."""
        state_bytes = measure_token_bytes(self.lm, min(SHORT, self.max_length))
        return prefix_budget(self.prefix_budget, state_bytes, device_of(self.lm.model))

    @cached_property
    def decode_tokens(self) -> int:
        """The tokens that all sequences being decoded may have together, by the memory that is free."""
        return prefix_budget(None, self.token_bytes, device_of(self.lm.model))

    @property
    def pass_size(self) -> int:
        """The tokens in a forward pass.

        A pass of several branches may have more tokens than the model has positions, which not every model takes.
        """
        size = PASS_TOKENS.get(device_of(self.lm.model).type, OTHER_PASS_TOKENS)
        if not self.is_known:
            size = min(size, getattr(self._config, POSITIONS, None) or size)
        return min(size, self.lm.max_tokens)

    def is_worth_trial(self, longest: int, work: int) -> bool:
        """Whether sequences of up to `longest` tokens, `work` tokens in all, are worth the trial that they need.

        A small run takes less time if each sequence is computed alone, which needs no trial.
        """
        length = self._scoring_length(longest)
        if self.is_known or any(question.endswith(f" of {length}") for question in self.records.verdicts):
            return True
        return self.computed_alone + work > WORTH_TRIAL * length

    def scoring(self, longest: int) -> ScoringWay:
        """How sequences of up to that many tokens are scored; the log says why where nothing is shared."""
        shares = self.shares_prefixes
        if self.is_known and not shares:
            return ScoringWay.PADDED
        if self.is_known and longest <= self.short_length and self.mode:
            return self.mode
        length = self._scoring_length(longest)
        question = f"{'scoring' if shares else 'batches'} of {length}"
        way = self._choose(question, lambda: self._try_scoring(length, shares=shares), ScoringWay.ALONE)
        if shares and way in (ScoringWay.PADDED, ScoringWay.ALONE):
            slides = longest > self.short_length and self.mode is not None
            self._warn(self._reason(longest, slides, OTHER_RESULTS))
        if way is ScoringWay.ALONE:
            self._warn("its results change in a batch, so each sequence is computed alone")
        return way

    def _scoring_length(self, longest: int) -> int:
        """The length of the trial for sequences of up to that many tokens, within the limits that these are within."""
        limits = (self.short_length, self.shared_length[0], self.max_length - 1)
        return trial_length(longest, min((limit for limit in limits if limit >= longest), default=longest))

    def _try_scoring(self, length: int, *, shares: bool) -> ScoringWay:
        """The fastest way to score sequences of that length that gives the model's own numbers."""
        if shares and self.verified_ways and BRIEF <= length <= self.short_length:
            way = ScoringWay[self.verified_ways[0]]
            if brief_trial(self.lm).allows(way, self.pass_size, BRIEF_PASSES):
                return way
        return first_allowed(self.lm, list(self._scoring_ways(length, shares)), length, self.pass_size)

    def _scoring_ways(self, length: int, shares: bool) -> Iterator[ScoringWay]:
        """The ways to score sequences of that length that are worth a trial, fastest first."""
        if shares and length <= self.shared_length[0]:
            model = self.lm.model
            if model._supports_attention_backend and device_of(model).type == "cpu":
                yield ScoringWay.TREE_ATTENTION
            yield ScoringWay.MASKED
        if shares and self._may_resume(length):
            yield from (ScoringWay.AT_ONCE, ScoringWay.STEPWISE)
        if not self._depends_on_batch:
            yield ScoringWay.PADDED

    def decoding(self, longest: int) -> Decoding:
        """How sequences of up to that many tokens, prompts included, are decoded; the log says why if each is alone."""
        if self.is_known and longest <= self.short_length and self._shares_short_prefixes:
            return Decoding.SHARED
        length = trial_length(longest, self.max_length)
        decoding = self._choose(f"decoding {length}", lambda: self._try_decoding(length), Decoding.ALONE)
        if decoding not in (Decoding.SHARED, Decoding.RESUMED):
            slides = longest > self.short_length and self._shares_short_prefixes
            reason = self._reason(longest, slides, SPECIAL_KIND if self.mode else OTHER_RESULTS)
            self._warn(reason, "completions are generated without shared prefixes")
        return decoding

    def _choose(self, question: str, trial: Callable[[], Way], otherwise: Way) -> Way:
        """The way that a trial chooses, now or earlier; `otherwise` where it runs out of memory."""
        name = self.records.verdict(question, lambda: trial().name, otherwise=otherwise.name)
        return type(otherwise)[name]

    def _reason(self, longest: int, slides: bool, otherwise: str) -> str:
        """Why sequences of up to that many tokens do not share prefixes; `slides` where only short ones do."""
        length, reason = self.shared_length
        if longest > length:
            return reason
        return f"its attention slides over {self.short_length} tokens" if slides else otherwise

    @cached_property
    def _shares_short_prefixes(self) -> bool:
        """Whether short sequences can be decoded with shared prefixes."""
        return self._choose("short decoding", self._try_short_decoding, Decoding.ALONE) is Decoding.SHARED

    def _try_short_decoding(self) -> Decoding:
        length = min(SHORT // 2, self.short_length, self.max_length)
        is_verified = Decoding.SHARED.name in self.verified_ways
        brief = is_verified and length >= BRIEF and self._decodes_shared(BRIEF, BRIEF_PASSES)
        return Decoding.SHARED if brief or self._decodes_shared(length, PASSES) else Decoding.ALONE

    def _decodes_shared(self, length: int, passes: int) -> bool:
        trial = decoding_trial(self.lm, length, by_generate=False) if self._can_attend else None
        return trial is not None and trial.allows_shared_prefixes(self.forward, self.pass_size, passes)

    @property
    def _can_attend(self) -> bool:
        """Whether the model's layers call an attention function that can be replaced."""
        return self.mode is not None and bool(self.lm.model._supports_attention_backend)

    def _may_resume(self, length: int) -> bool:
        """Whether the configuration lets sequences of that length resume from a state."""
        return self.shares_prefixes and not self._depends_on_batch and length <= scaled_after(self._config)

    def _try_decoding(self, length: int) -> Decoding:
        """The fastest way to decode sequences of that length that gives the model's own results."""
        model = self.lm.model
        if not model.can_generate():
            return Decoding.UNCACHED
        fits = length <= self.shared_length[0] and self._can_attend  # before the conversion, and with its own trial
        with in_float32(model):
            trial = decoding_trial(self.lm, length, by_generate=True)
            if trial is None:  # its own `generate` fails, as that of ProphetNet does
                return Decoding.UNCACHED
            if not is_library_class(model) and not trial.is_plain():
                return Decoding.UNCACHED
            if self._depends_on_batch:
                return Decoding.ALONE
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
    """The verdicts on one model, by what was tried; in a file where the model has an identity.

    The file is beside the stored responses, or in the user's cache. `settings` are what verdicts depend on as well.
    """

    def __init__(self, identity: str | None = None, *settings: str) -> None:
        self.path: Path | None = None
        if identity:
            store = os.environ.get("MULTIFORM_STORE")
            folder = Path(store).expanduser().parent if store else cache_root()
            # A verdict on another version of the engine would say nothing.
            versions = [transformers.__version__, torch.__version__, source_hash(Path(__file__).parent)]
            name = sha256("\n".join([" ".join([identity, *settings]), *versions]))[:24]
            self.path = folder / "trials" / f"{name}.json"
        self.verdicts = self._read_verdicts()

    def verdict(self, question: str, ask: Callable[[], str], otherwise: str) -> str:
        """The verdict on a question: the kept one, or that of a trial.

        A trial that runs out of memory gives the verdict `otherwise`, which is not kept.
        """
        if question not in self.verdicts:
            verdict = run_in_memory(ask)
            if verdict is None:
                return otherwise
            self.verdicts[question] = verdict
            if self.path:
                # Where the folder cannot be written to, it is kept for this run only.
                with contextlib.suppress(OSError), replace_file(self.path) as file:
                    file.write_text(json.dumps(self._read_verdicts() | self.verdicts, indent=1))
        return self.verdicts[question]

    def _read_verdicts(self) -> dict[str, str]:
        try:
            content = json.loads(self.path.read_text()) if self.path else {}
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}
