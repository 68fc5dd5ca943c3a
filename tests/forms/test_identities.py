"""The identities of forms, pinned in `golden/identities.txt`: a line per benchmark of the library and form of the quiz.

Results and requests are known by the identity of their form. A changed line means that cached prompts and earlier
results of that form no longer match: change one only on purpose, say so in the changelog, and write the file again::

    make golden
"""

from __future__ import annotations

from functools import partial

from multiform import Form, RunSettings, TaskConfig, TaskManager
from multiform.hashing import short_hash
from multiform.tasks.group import Group
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "identities.txt"


def identity(config: TaskConfig) -> str:
    return Form(config, RunSettings()).identity(None)


def identities() -> dict[str, str]:
    """The identity of each form; of each group, a hash of the identities of its forms, and how many it has."""
    manager = TaskManager()
    found = {config.form_name: identity(config) for config in manager.load("quiz@all")}
    for name in sorted(entry.name for entry in manager.index.entries.values() if entry.family is None):
        for node in manager.nodes(name):
            if isinstance(node, Group):
                forms = {config.form_name: identity(config) for config in node.tasks()}
                found[name] = f"{short_hash(forms)} of {len(forms)} forms"
            else:
                found[node.form_name] = identity(node)
    return found


def lines(found: dict[str, str]) -> list[str]:
    width = max(map(len, found))
    return [f"{name:<{width}}  {value}" for name, value in found.items()]


def test_the_identities_of_forms_do_not_change() -> None:
    pinned = dict(line.split(maxsplit=1) for line in GOLDEN.read_text(encoding="utf-8").splitlines())
    found = identities()
    changed = {name: f"{pinned[name]} -> {value}" for name, value in found.items() if pinned.get(name, value) != value}
    assert not changed, "cached prompts and results of these forms would no longer match; if that is meant: make golden"
    assert sorted(found) == sorted(pinned), "forms were added or removed; if that is meant: make golden"


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(lines(identities())) + "\n", encoding="utf-8")


def test_a_partial_function_counts_by_its_name_and_arguments_not_by_an_address() -> None:
    def config(size: int) -> TaskConfig:
        return TaskConfig(task="t", doc_to_text="q", doc_to_target="a", process_docs=partial(first_docs, size))

    assert config(1).to_dict()["process_docs"] == f"{__name__}.first_docs(1)"
    assert identity(config(1)) != identity(config(2))


def first_docs(size: int, docs: list[object]) -> list[object]:
    return docs[:size]
