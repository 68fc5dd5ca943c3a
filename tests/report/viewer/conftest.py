"""A browser for the viewer's pages."""

from tests.browser import chromium, open_page

__all__ = ["chromium", "open_page"]
