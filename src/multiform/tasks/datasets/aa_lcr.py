"""AA-LCR: its table of questions, joined with the documents, which its repository has in a zip file."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from multiform.errors import DataError
from multiform.tasks.datasets.files import read_rows
from multiform.tasks.datasets.hub import repository_file

REPO = "ArtificialAnalysis/AA-LCR"
TABLE = "AA-LCR_Dataset.csv"
DOCUMENTS = "extracted_text/AA-LCR_extracted-text.zip"


def load(*, dataset_mirror: Path | None = None, **_: Any) -> dict[str, list[dict[str, Any]]]:
    """The questions, each with its `documents`: those that `data_source_filenames` lists, in that order."""
    table, archive = (repository_file(REPO, name, dataset_mirror) for name in (TABLE, DOCUMENTS))
    try:
        with ZipFile(archive) as texts:
            entries = {tuple(name.split("/")[-3:]): name for name in texts.namelist()}
            return {"test": [{**row, "documents": _documents(row, texts, entries)} for row in read_rows(table)]}
    except BadZipFile as error:
        raise DataError("the archive of documents is damaged", where=str(archive), hint="download it again") from error


def _documents(row: dict[str, Any], texts: ZipFile, entries: dict[tuple[str, ...], str]) -> list[str]:
    """The texts of a question's documents, which are in the folder of its category and set."""
    documents = []
    for name in str(row["data_source_filenames"]).split(";"):
        place = (str(row["document_category"]), str(row["document_set_id"]), name.strip())
        if place not in entries:
            hint = "the repository may have changed: look at its files"
            raise DataError(f"no document {'/'.join(place)} in the archive", where=REPO, hint=hint)
        documents.append(texts.read(entries[place]).decode("utf-8"))
    return documents
