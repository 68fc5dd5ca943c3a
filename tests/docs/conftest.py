"""A browser, for the tests of the site."""

from __future__ import annotations

from tests.browser import chromium

__all__ = ["chromium"]
