"""Reports: the results of one or more runs as a page that opens anywhere, without a network or a server."""

from multiform.report.page import write_report

__all__ = ["write_report"]
