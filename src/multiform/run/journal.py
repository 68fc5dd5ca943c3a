"""Journal: the state of a run on disk while it goes on, so that a killed run can be inspected.

    run_<key>.json              its state, when it began, and how many documents are scored
    partial_samples_<key>.jsonl the documents that are scored, in the order in which they were
    costs_<key>.jsonl           the tokens and time of their completions, and media/ with their images, for the viewer
    partial_results_<key>.json  their scores, where the run was stopped or failed

The key is the same whenever the same forms are run on the same model: a run that goes on replaces the files of the one
before, and a run that is complete removes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from multiform.errors import MultiformError
from multiform.forms import ScoredSample
from multiform.results.export import json_line, to_json, write_json
from multiform.results.results import Results
from multiform.results.samples import Sidecars, costs_file, sample_line
from multiform.run.pending import Batch

logger = logging.getLogger("multiform")

#: Seconds between two states of a run that are written.
_PAUSE = 2.0


class Journal:
    """Writes the state of a run, and with `samples` every document as soon as it is scored.

    A disk that cannot be written does not end the run: that is reported once, and the run goes on without a journal.
    """

    def __init__(
        self, folder: Path, key: str, *, about: Mapping[str, Any], documents: Mapping[str, int], samples: bool
    ) -> None:
        self.state_file = folder / f"run_{key}.json"
        self.samples_file = folder / f"partial_samples_{key}.jsonl"
        self.results_file = folder / f"partial_results_{key}.json"
        self._costs_file = costs_file(folder, key)
        self._sidecars = Sidecars(folder, key)
        self._about = about
        self._started = datetime.now().isoformat()
        self._forms = {form: {"documents": number, "scored": 0, "failed": 0} for form, number in documents.items()}
        self._requests = {"needed": 0, "cached": 0, "answered": 0, "failed": 0}
        self._with_samples = samples
        self._samples: TextIO | None = None
        self._written = 0.0
        self._working = True

    def begin(self) -> None:
        """Replace the files of an earlier run of the same forms."""
        self._try(self._open_files)

    def add(self, batch: Batch) -> None:
        """Take what was done with samples."""
        requests = self._requests
        requests["needed"] += len(batch.asked) + len(batch.cached)
        requests["cached"] += len(batch.cached)
        requests["answered"] += batch.responses - batch.failed_requests
        requests["failed"] += batch.failed_requests
        for form, _ in batch.failed:
            self._forms[form]["failed"] += 1
        for form, documents in batch.documents.items():
            self._forms[form]["scored"] += documents
            if self._samples is not None:
                self._try(partial(self._write_samples, self._samples, form, batch.scored.get(form, ())))
        if batch.asked or time.monotonic() - self._written > _PAUSE:
            self._write_state("running")

    def complete(self) -> None:
        """Remove the files, as the results of the run are written."""
        self._close()
        self._remove()

    def end(self, status: str, results: Results | None = None) -> list[Path]:
        """Close the journal of an incomplete run; returns its files."""
        self._close()
        if results is not None:
            self._try(lambda: write_json(self.results_file, to_json(results)))
        self._write_state(status)
        return [file for file in self._files if file.exists()]

    @property
    def _files(self) -> Sequence[Path]:
        return self.state_file, self.results_file, self.samples_file, self._costs_file

    def _remove(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)

    def _open_files(self) -> None:
        self.state_file.parent.mkdir(parents=True, exist_ok=True)
        for file in (self.results_file, self.samples_file, self._costs_file):
            file.unlink(missing_ok=True)
        if self._with_samples:
            # A line is on disk as soon as it is written.
            self._samples = self.samples_file.open("w", encoding="utf-8", errors="backslashreplace", buffering=1)

    def _write_samples(self, file: TextIO, form: str, samples: Iterable[ScoredSample]) -> None:
        for sample in samples:
            file.write(json_line({"form": form, **sample_line(sample)}) + "\n")
            self._sidecars.add(form, sample)
        self._sidecars.write_costs()

    def _close(self) -> None:
        if self._samples is not None:
            self._try(self._samples.close)
            self._samples = None

    def _write_state(self, status: str) -> None:
        self._written = time.monotonic()
        state = {
            "status": status,
            "started": self._started,
            "updated": datetime.now().isoformat(),
            **self._about,
            "forms": self._forms,
            "requests": self._requests,
            "host": platform.node(),
            "pid": os.getpid(),
        }
        self._try(lambda: write_json(self.state_file, state))

    def _try(self, use: Callable[[], object]) -> None:
        if not self._working:
            return
        try:
            use()
        except (OSError, MultiformError) as error:
            self._working = False
            logger.warning("%s: the state of the run cannot be written: %s; going on", self.state_file, error)
            self._remove()  # a full disk needs the space, and half a file is of no use
