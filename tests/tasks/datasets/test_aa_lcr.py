"""AA-LCR: questions joined with the documents of the archive."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from multiform import Task, TaskManager
from multiform.errors import DataError
from multiform.tasks.datasets.aa_lcr import DOCUMENTS, REPO, TABLE


def mirror(folder: Path, files: str = "b.txt;a.txt") -> Path:
    """A mirror with one question about two documents."""
    (folder / REPO / DOCUMENTS).parent.mkdir(parents=True)
    header = "document_category,document_set_id,question_id,question,answer,data_source_filenames"
    (folder / REPO / TABLE).write_text(f"{header}\nLegal,cases,1,Who won?,Ann,{files}\n")
    with ZipFile(folder / REPO / DOCUMENTS, "w") as archive:
        archive.writestr("lcr/Legal/cases/a.txt", "Ann sued.")
        archive.writestr("lcr/Legal/cases/b.txt", "The court agreed.")
    return folder


def test_documents_come_in_the_order_of_the_row(tmp_path: Path):
    [config] = TaskManager().load("aa_lcr@judge")
    task = Task.from_config(config, dataset_mirror=mirror(tmp_path))
    prompt = task.sample(0, task.eval_docs[0]).prompt
    assert prompt.startswith("BEGIN INPUT DOCUMENTS\n\nBEGIN DOCUMENT 1:\nThe court agreed.\nEND DOCUMENT 1\n\nBEGIN")
    assert prompt.endswith("START QUESTION\n\nWho won?\n\nEND QUESTION\n")


def test_a_missing_document_is_named(tmp_path: Path):
    [config] = TaskManager().load("aa_lcr@judge")
    task = Task.from_config(config, dataset_mirror=mirror(tmp_path, files="a.txt;c.txt"))
    with pytest.raises(DataError, match=r"no document Legal/cases/c\.txt in the archive"):
        list(task.eval_docs)
