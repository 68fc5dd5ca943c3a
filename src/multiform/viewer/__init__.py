"""The viewer: a folder of runs in the browser, served on this machine alone."""

from multiform.viewer.server import Viewer

__all__ = ["Viewer"]
