"""How several attempts at one problem become one value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]


class Aggregator(Protocol):
    """Makes one row of all rows that share the identifying columns."""

    name: str

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame: ...


def closed_form_passatk(n: int, c: int, k: int) -> float:
    """The chance that one of k attempts is right, where c of n were; with fewer than k, whether any was."""
    if n < k:
        return float(c > 0)
    return 1 - math.comb(int(n - c), k) / math.comb(int(n), k)


class PassAtK:
    """The chance that one of k attempts is right."""

    def __init__(self, k: int = 1) -> None:
        self.k = k
        self.name = f"Pass@{k}"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return _grouped(response_df, identifier_columns, lambda values: closed_form_passatk(*_count(values), self.k))


class IdentifierMean:
    """The mean of all attempts."""

    name = "IdentifierMean"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return _grouped(response_df, identifier_columns, "mean")


class Identity:
    """Every attempt by itself."""

    name = "Identity"

    def __call__(self, response_df: pd.DataFrame, identifier_columns: list[str], **kwargs: Any) -> pd.DataFrame:
        return response_df


def _grouped(rows: pd.DataFrame, columns: list[str], of_values: str | Callable[[Any], float]) -> pd.DataFrame:
    others: dict[str, Any] = {name: "first" for name in rows.columns if name not in (*columns, "value")}
    return rows.groupby(columns).agg({"value": of_values, **others}).reset_index()


def _count(values: Any) -> tuple[int, int]:
    return int(values.count()), int(values.sum())
