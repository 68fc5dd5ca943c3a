"""Configurations of tasks and groups: typed, validated, with errors that name the file and line.

A name is imported when it is first used: listing tasks needs none.
"""

from typing import TYPE_CHECKING

from multiform.imports.lazy import lazy_names

if TYPE_CHECKING:
    from multiform.config.fewshot import FewshotConfig
    from multiform.config.group import GroupConfig
    from multiform.config.keys import FilterPipeline, FilterStep, MetricConfig, ScorerConfig
    from multiform.config.source import Source
    from multiform.config.task import TaskConfig
    from multiform.config.yaml import YamlFile, read_yaml

__all__ = [
    "FewshotConfig",
    "FilterPipeline",
    "FilterStep",
    "GroupConfig",
    "MetricConfig",
    "ScorerConfig",
    "Source",
    "TaskConfig",
    "YamlFile",
    "read_yaml",
]

_HOMES = (
    "multiform.config.fewshot",
    "multiform.config.group",
    "multiform.config.keys",
    "multiform.config.source",
    "multiform.config.task",
    "multiform.config.yaml",
)

__getattr__ = lazy_names(__name__, __all__, _HOMES)
