"""Reading YAML task files with the files that they include, and the prompt libraries that they name.

``use_prompt: file.yaml:name`` is an entry below `prompts:` of a YAML file, with keys such as `doc_to_text` and
`doc_to_target`. ``promptsource:name`` is a template of promptsource for the task's dataset; the template files
are read from the installed package, or from the folder that ``PROMPTSOURCE_TEMPLATES`` names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from multiform.errors import ConfigError, excerpt, nearest
from multiform.fields import ComputedField, Doc, Field
from multiform.formats.compile import BoundTemplate
from multiform.paths import display, open_file, resolve
from multiform.tasks.functions import resolve_functions
from multiform.tasks.keys import FilePosition, KeyPath, Source, StatedKeys
from multiform.tasks.parse import Parsed, parse_yaml

#: The most bytes of a task file, the most files that it includes one inside the other, and the most includes in all.
_MAX_BYTES = 2_000_000
_MAX_DEPTH = 30
_MAX_INCLUDES = 1000


def read_yaml(path: Path, known: dict[Path, StatedKeys] | None = None) -> StatedKeys:
    """Read a task file with its includes: later includes override earlier ones, and the file overrides all.

    `known` keeps the included files for other files that a caller reads at the same time.
    """
    return _read_file(resolve(path), (), {} if known is None else known)


def read_own(path: Path) -> StatedKeys:
    """Read a task file without its includes; `include` stays one of its keys."""
    parsed = parse_yaml(read_text(path), resolve(path))
    return StatedKeys(_mapping(parsed, path), Source(path, parsed.positions, parsed.notes))


def read_mapping(path: Path, expected: str, hint: str) -> tuple[dict[str, Any], dict[KeyPath, FilePosition]]:
    """The mapping in a YAML file that is not a task, such as a policy, and the positions of its keys."""
    parsed = parse_yaml(read_text(path), path)
    if parsed.notes:
        raise parsed.notes[0]
    if not isinstance(parsed.data, dict):
        raise ConfigError(f"expected {expected}", where=f"{path}:1", hint=hint)
    return parsed.data, parsed.positions


def read_text(path: Path) -> str:
    """The text of a file, or a ConfigError that says why it cannot be read."""
    try:
        with open_file(path) as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            message = f"the file is too large: more than {_MAX_BYTES:,} bytes"
            raise ConfigError(message, where=display(path), hint="keep documents in a data file, not in the task file")
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=display(path), hint=_file_hint(path, "*.y*ml")) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise ConfigError(message, where=str(FilePosition(path, line)), hint="save the file as UTF-8") from error
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(message, where=display(path), hint="check its path and rights") from error


#: A run reads a file once for each format, and thousands of files include the same few: each is parsed once for the
#: same text.
_parse = lru_cache(maxsize=512)(parse_yaml)


def _read_file(path: Path, chain: tuple[Path, ...], known: dict[Path, StatedKeys]) -> StatedKeys:
    """Read a file with its includes; `chain` has the files that include it, and `known` the files included so far."""
    parsed = _parse(read_text(path), path)
    data = _mapping(parsed, path)
    source = Source(path, parsed.positions, parsed.notes)
    keys = {key: value for key, value in data.items() if key != "include"}
    names = _include_list(data.get("include"), source)
    if len(names) > _MAX_INCLUDES:
        message = f"{len(names):,} includes, and {_MAX_INCLUDES:,} are allowed"
        raise ConfigError(message, where=f"{source.at('include')}: include", hint="include each file once")
    files = [_read_include(name, place, path, chain, known) for name, place in names]
    includes = [known[file] for file in files]
    included = frozenset(files).union(*(stated.included for stated in includes))
    if len(included) > _MAX_INCLUDES:
        message = f"more than {_MAX_INCLUDES:,} files are included"
        raise ConfigError(message, where=f"{source.at('include')}: include", hint="include fewer")
    merged: dict[str, Any] = {}
    for stated in includes:
        merged |= {key: value for key, value in stated.data.items() if key != "task_list"}  # as in lm-eval
    sources = [stated.source for stated in includes if stated.source is not None]
    return StatedKeys(merged | keys, source.over(sources), included=included)


def _mapping(parsed: Parsed, path: Path) -> dict[str, Any]:
    data = parsed.data
    if isinstance(data, dict):
        return data
    content = "an empty file" if data is None else "a list" if isinstance(data, list) else "text or a number"
    message = f"expected a mapping of task fields, got {content}"
    raise ConfigError(message, where=f"{display(path)}:1", hint="start with 'task: name'")


def _include_list(value: Any, source: Source) -> list[tuple[str, str]]:
    """The included names, each with its place in the file."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    placed = [(item, f"{source.at('include', index)}: include") for index, item in enumerate(items)]
    for item, place in placed:
        if not isinstance(item, str) or not item.strip():
            message = f"expected a file name or a list of them, got {excerpt(item)}"
            raise ConfigError(message, where=place, hint="write e.g. include: common.yaml")
    return placed


def _read_include(name: str, place: str, path: Path, chain: tuple[Path, ...], known: dict[Path, StatedKeys]) -> Path:
    """Read an included file into `known`, unless it is there, and return its path."""
    file = path.parent / name
    if file in known:
        return file
    try:
        target = file.resolve()
        exists = target.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or ("a link to itself" if isinstance(error, RuntimeError) else error)
        raise ConfigError(f"no file {excerpt(name)}: {why}", where=place, hint="check the name") from error
    if not exists:
        if target.is_dir():
            raise ConfigError(f"'{name}' is a folder", where=place, hint="name a file in it")
        if target.exists():
            raise ConfigError(f"'{name}' is a pipe or device, not a file", where=place, hint="name a YAML file")
        raise ConfigError(f"no file '{name}'", where=place, hint=_file_hint(target, "*"))
    chain = (*chain, path)
    if target in chain:
        loop = " -> ".join(p.name for p in (*chain[chain.index(target) :], target))
        raise ConfigError(f"include cycle: {loop}", where=place, hint="remove one of these includes")
    if len(chain) > _MAX_DEPTH:
        message = f"more than {_MAX_DEPTH} files include each other, one inside the other"
        raise ConfigError(message, where=place, hint="include fewer")
    known[file] = _read_file(target, chain, known)
    return file


def _file_hint(path: Path, pattern: str) -> str:
    """A hint with the file that may be meant, or with those that are there."""
    if not path.parent.is_dir():
        return f"there is no folder {display(path.parent)}"
    siblings = [p.name for p in path.parent.glob(pattern) if p.is_file()]
    files = "files" if pattern == "*" else "YAML files"
    return nearest(path.name, siblings, listed=f"the {files} in {display(path.parent)} are")


#: The keys that an entry of a library may have.
KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter", "gen_prefix", "description")


def load_prompt(stated: StatedKeys) -> dict[str, Any]:
    """The fields of a task that its `use_prompt` sets; a library file is looked up beside the task file."""
    spec = str(stated.get("use_prompt"))
    library, _, name = spec.rpartition(":")
    if not library or not name:
        hint = "write e.g. 'prompts.yaml:short' or 'promptsource:GPT-3 Style'"
        raise ConfigError(f"expected library:prompt, got '{spec}'", hint=hint)
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
    listed = Field.of(ComputedField(partial(_split_choices, Field.text(str(choices))), (), str(choices)))
    bound = {"answer_choices": listed}
    return {
        "doc_to_text": BoundTemplate(text.strip(), bound),
        "doc_to_target": BoundTemplate(target.strip(), bound),
        "doc_to_choice": listed.spec,
    }


def _split_choices(field: Field, doc: Doc) -> list[str]:
    return [choice.strip() for choice in str(field.value(doc)).split("|||")]


def _templates_folder() -> Path:
    folder = os.environ.get("PROMPTSOURCE_TEMPLATES")
    if folder:
        return Path(folder)
    spec = find_spec("promptsource")
    if spec is None or spec.origin is None:
        hint = "install promptsource, or set PROMPTSOURCE_TEMPLATES to its folder of templates"
        raise ConfigError("promptsource's templates are not on disk", hint=hint)
    return Path(spec.origin).parent / "templates"


class _TemplateLoader(yaml.SafeLoader):
    """Reads promptsource's own tags as plain mappings."""


_TemplateLoader.add_multi_constructor("!", lambda loader, suffix, node: loader.construct_mapping(node, deep=True))
