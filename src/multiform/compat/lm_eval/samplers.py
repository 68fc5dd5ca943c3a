"""ContextSampler, the base class of few-shot samplers that are written for lm-eval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from multiform.forms.samplers import Sampler, samplers

T = TypeVar("T")
Docs = Sequence[dict[str, Any]]


class ContextSampler:
    """Draws documents at random.

    >>> ContextSampler([{"q": 1}, {"q": 2}], rnd=0).sample(1, eval_doc={"q": 1})
    [{'q': 2}]
    """

    def __init__(
        self, df: Docs | None = None, *, rnd: int | None = None, fewshot_indices: list[int] | None = None, **kwargs: Any
    ) -> None:
        self.df: Docs = df or []
        self.rnd = Random(rnd)
        self.fewshot_indices = fewshot_indices
        #: Whether `df` holds the documents of `fewshot_indices` alone.
        self._loaded = False

    def sample(self, n: int, eval_doc: dict[str, Any] | None = None, df: Docs | None = None, **kwargs: Any) -> Docs:
        """Draw n documents, none of which is the evaluated one."""
        assert n >= 0, "Error: number of samples requested must be >=0"
        if n == 0:
            return []
        self.df = df or self.df
        assert self.df, "Error: no documents available for sampling."
        docs = self.fewshot_docs()
        if not eval_doc:
            return self.rnd.sample(docs, n)
        # One more is drawn than needed, so that the excluded one can be dropped.
        drawn = self.rm_eval_doc(eval_doc, self.rnd.sample(docs, n + 1), n)
        if len(drawn) < n:  # the pool holds it more than once
            drawn = self.rnd.sample(list(self.rm_eval_doc(eval_doc, docs)), n)
        return drawn

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        """Start the random generator again."""
        self.rnd = Random(rnd)
        return self

    def replace_df(self, df: Docs) -> ContextSampler:
        """Draw from other documents."""
        self.df = df
        self._loaded = False
        return self

    def fewshot_docs(self) -> list[dict[str, Any]]:
        """The documents to draw from: those of the chosen numbers, or all."""
        if self.fewshot_indices and self.df and not self._loaded:
            self.df = [self.df[index] for index in self.fewshot_indices]
        self._loaded = True
        return list(self.df)

    @staticmethod
    def rm_eval_doc(doc: T, _iter: Iterable[T], n: int | None = None) -> Sequence[T]:
        """Up to n items that are not the document."""
        return [item for item in _iter if item != doc][:n]


class FirstNSampler(ContextSampler):
    """Takes the first documents, in order."""

    def sample(self, n: int, eval_doc: dict[str, Any] | None = None, df: Docs | None = None, **kwargs: Any) -> Docs:
        pool = self.df if eval_doc is None else self.rm_eval_doc(eval_doc, self.df)
        assert n <= len(pool), f"Error: {n} few-shot samples requested, which exceeds the {len(pool)} available."
        return pool[:n]


class _Samplers(dict[str, type[ContextSampler]]):
    """The samplers by name; one that a script adds can be named by tasks."""

    def __setitem__(self, name: str, kind: type[ContextSampler]) -> None:
        super().__setitem__(name, kind)
        samplers.register(name)(_as_ours(kind))


SAMPLER_REGISTRY: dict[str, type[ContextSampler]] = _Samplers(default=ContextSampler, first_n=FirstNSampler)


def get_sampler(name: str) -> type[ContextSampler]:
    """The class of a name."""
    if name not in SAMPLER_REGISTRY:
        raise KeyError(f"no sampling strategy is called '{name}'; there are {', '.join(SAMPLER_REGISTRY)}")
    return SAMPLER_REGISTRY[name]


def _as_ours(kind: type[ContextSampler]) -> type[Sampler]:
    """A sampler of a script as one of Multiform's, which gives the numbers of documents."""

    class Registered(DocumentSampler):
        def __init__(self, pool: Sequence[Any], *, seed: int | None = None, **kwargs: Any) -> None:
            super().__init__(kind(list(pool), rnd=seed), pool, seed=seed)

    return Registered


class DocumentSampler(Sampler):
    """Draws the numbers of the documents that a sampler of a script draws."""

    def __init__(self, inner: ContextSampler, pool: Sequence[Any], *, seed: int | None = None) -> None:
        super().__init__(pool, seed=seed)
        self.inner = inner

    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        return [self.pool.index(doc) for doc in self.inner.sample(n, eval_doc=exclude)]


def as_sampler(sampler: Any) -> Any:
    """The sampler that a task's class gives, as one of Multiform's."""
    return DocumentSampler(sampler, sampler.fewshot_docs()) if isinstance(sampler, ContextSampler) else sampler
