"""`use_prompt`: fields of a task taken from a library of prompts.

``file.yaml:name`` is an entry below `prompts:` of a YAML file, with keys such as `doc_to_text` and
`doc_to_target`. ``promptsource:name`` is a template of promptsource for the task's dataset; the template files
are read from the installed package, or from the folder that ``PROMPTSOURCE_TEMPLATES`` names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from multiform.errors import ConfigError, nearest
from multiform.fields import Doc, Field
from multiform.formats.compile import BoundTemplate
from multiform.tasks.functions import resolve_functions
from multiform.tasks.source import StatedKeys
from multiform.tasks.yaml import read_text, read_yaml

#: The keys that an entry of a library may have.
KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter", "gen_prefix", "description")


def load_prompt(stated: StatedKeys) -> dict[str, Any]:
    """The fields of a task that its `use_prompt` sets; a library file is looked up beside the task file."""
    spec = str(stated.get("use_prompt"))
    library, _, name = spec.rpartition(":")
    if not library or not name:
        raise ConfigError(
            f"expected library:prompt, got '{spec}'",
            hint="write e.g. 'prompts.yaml:short' or 'promptsource:GPT-3 Style'",
        )
    if library == "promptsource":
        return _from_promptsource(name, stated.get("dataset_path"), stated.get("dataset_name"))
    folder = stated.source.file.parent if stated.source else Path()
    return _from_yaml(folder / library, name)


def _from_yaml(path: Path, name: str) -> dict[str, Any]:
    prompts = read_yaml(path).data.get("prompts")
    if not isinstance(prompts, Mapping):
        raise ConfigError("there is no 'prompts:' table", where=str(path), hint="write 'prompts:' and entries below it")
    if name not in prompts:
        raise ConfigError(f"no prompt '{name}' in {path.name}", hint=nearest(name, prompts, listed="prompts"))
    entry = prompts[name]
    unknown = [key for key in entry if key not in KEYS] if isinstance(entry, Mapping) else [entry]
    if unknown:
        raise ConfigError(f"prompt '{name}' has an unknown key '{unknown[0]}'", hint=f"known keys: {', '.join(KEYS)}")
    return dict(resolve_functions(dict(entry)))


def _from_promptsource(name: str, dataset_path: str | None, dataset_name: str | None) -> dict[str, Any]:
    path = _templates_folder().joinpath(*filter(None, (dataset_path, dataset_name)), "templates.yaml")
    if not path.is_file():
        raise ConfigError(f"promptsource has no templates for '{dataset_path}'", hint=f"looked for {path}")
    entries = yaml.load(read_text(path), Loader=_TemplateLoader)["templates"].values()
    by_name = {str(entry["name"]): entry for entry in entries}
    if name not in by_name:
        raise ConfigError(f"promptsource has no template '{name}'", hint=nearest(name, by_name, listed="templates"))
    return _template_fields(by_name[name])


def _template_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a promptsource template, which separates prompt and target, and choices, by ``|||``."""
    text, _, target = str(entry["jinja"]).partition("|||")
    choices = entry.get("answer_choices")
    if not choices:
        return {"doc_to_text": text.strip(), "doc_to_target": target.strip()}
    listed = Field.of(_Choices(str(choices)))
    bound = {"answer_choices": listed}
    return {
        "doc_to_text": BoundTemplate(text.strip(), bound),
        "doc_to_target": BoundTemplate(target.strip(), bound),
        "doc_to_choice": listed.spec,
    }


class _Choices:
    """The choices of a document, rendered and split."""

    def __init__(self, source: str) -> None:
        self.field = Field.text(source)

    def __call__(self, doc: Doc) -> list[str]:
        return [choice.strip() for choice in str(self.field.read(doc)).split("|||")]


def _templates_folder() -> Path:
    folder = os.environ.get("PROMPTSOURCE_TEMPLATES")
    if folder:
        return Path(folder)
    spec = find_spec("promptsource")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "promptsource's templates are not on disk",
            hint="install promptsource, or set PROMPTSOURCE_TEMPLATES to its folder of templates",
        )
    return Path(spec.origin).parent / "templates"


class _TemplateLoader(yaml.SafeLoader):
    """Reads promptsource's own tags as plain mappings."""


def _as_mapping(loader: Any, suffix: str, node: Any) -> Any:
    return loader.construct_mapping(node, deep=True)


_TemplateLoader.add_multi_constructor("!", _as_mapping)
