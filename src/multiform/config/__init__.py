"""Configurations of tasks and groups: typed, validated, with errors that name the file and line."""

from multiform.config.fewshot import FewshotConfig
from multiform.config.group import GroupConfig
from multiform.config.scoring import FilterPipeline, FilterStep, MetricConfig, ScorerConfig
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
