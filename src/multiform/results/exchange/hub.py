"""Results on the hub: `--hf_hub_log_args` with lm-eval's keys and layout, and entries for the pages of models."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from multiform.errors import UsageError, excerpt, nearest, reason
from multiform.paths import replace_output, safe_name
from multiform.results.exchange.exporters import is_number, shareable
from multiform.results.export import write_results
from multiform.results.values import ResultsData

logger = logging.getLogger("multiform")

WHERE = "hf_hub_log_args"
#: The name of a repository where none is given, as of lm-eval.
_DEFAULT_REPO = "lm-eval-results"
#: How often a commit is tried.
_ATTEMPTS = 2
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
#: The files that runs write: of what, and when.
_FILE = re.compile(r"(?:samples_(?P<form>.+)|results)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubTarget:
    """Where on the hub a run's files go. The fields are lm-eval's keys."""

    #: The user or organization; by default, whoever has the token.
    hub_results_org: str = ""
    #: One repository for results and samples; the next two name one for each.
    hub_repo_name: str = ""
    details_repo_name: str = ""
    results_repo_name: str = ""
    push_results_to_hub: bool = False
    push_samples_to_hub: bool = False
    #: Private repositories, which are the default, have names that end in ``-private``.
    public_repo: bool = False
    token: str = field(default="", repr=False)
    #: These two are shown on the card of the repository.
    leaderboard_url: str = ""
    point_of_contact: str = ""
    #: Whether readers of the samples have to ask for access.
    gated: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> HubTarget:
        """The target that the arguments name; a UsageError where they cannot be honoured."""
        types = {entry.name: bool if isinstance(entry.default, bool) else str for entry in fields(cls)}
        for key, value in arguments.items():
            if key not in types:
                raise UsageError(f"no key '{key}'", where=WHERE, hint=nearest(key, types, listed="keys"))
            if not isinstance(value, types[key]):
                expected, example = ("true or false", "true") if types[key] is bool else ("a text", "my-name")
                shown = "another value" if key == "token" else excerpt(value)
                raise UsageError(f"{key}: expected {expected}, got {shown}", where=WHERE, hint=f"write {key}={example}")
        target = cls(**arguments)
        if not (target.push_results_to_hub or target.push_samples_to_hub):
            hint = "add push_results_to_hub=True or push_samples_to_hub=True"
            raise UsageError("they say where to push, and not what", where=WHERE, hint=hint)
        return target

    def repo(self, kind: str, user: str) -> str:
        """The repository of "results" or of "details", which are samples with their results."""
        details = self.hub_repo_name or self.details_repo_name or _DEFAULT_REPO
        name = details if kind == "details" else self.hub_repo_name or self.results_repo_name or details
        return f"{self.hub_results_org or user}/{name}{'' if self.public_repo else '-private'}"


class Hub:
    """The hub, with a token that it accepts. A failure after the run costs a warning, and no result."""

    def __init__(self, target: HubTarget) -> None:
        """Ask who the token belongs to: one that is missing or wrong is refused before the model runs."""
        from huggingface_hub import HfApi, get_token
        from huggingface_hub.errors import OfflineModeIsEnabled

        token = target.token or get_token()
        if not token:
            raise UsageError("there is no token of the hub", where=WHERE, hint="set HF_TOKEN, or run 'hf auth login'")
        self.target = target
        self._token = token
        self._api = HfApi(token=token, library_name="multiform")
        self._user = ""
        try:
            self._user = str(self._api.whoami()["name"])
        except OfflineModeIsEnabled as error:
            hint = "unset HF_HUB_OFFLINE, or leave it out"
            raise UsageError("HF_HUB_OFFLINE forbids to push", where=WHERE, hint=hint) from error
        except Exception as error:  # whatever the library raises: the hub may be there at the end of the run
            status = getattr(getattr(error, "response", None), "status_code", None)
            if status in (401, 403):
                message = f"the hub refuses the token (HTTP {status})"
                raise UsageError(message, where=WHERE, hint="make one that may write, and set HF_TOKEN") from error
            then = "the run begins, and its results are pushed at its end"
            logger.warning("the hub does not respond (%s): %s", self._words(error), then)

    def push(self, results: ResultsData) -> None:
        """Push the results of a complete run, and the samples of each form, without secrets; a failure is a warning."""
        target = self.target
        if results.status != "complete":
            logger.warning("the run is not complete: nothing is pushed to the hub")
            return
        with TemporaryDirectory() as folder:
            files = write_results(shareable(results), Path(folder), samples=target.push_samples_to_hub)
            name = str(results.provenance["model_name"])
            sanitized = str(results.provenance["model_name_sanitized"])
            if target.push_results_to_hub:
                # As lm-eval: below the name of the model, where that is one of the hub's.
                below = name if _HUB_ID.fullmatch(name) and ".." not in name else sanitized
                self._push("results", {f"{below}/{files[0].name}": files[0]}, name)
            if target.push_samples_to_hub:
                self._push("samples", {f"{sanitized}/{file.name}": file for file in files}, name)

    def _commit(self, what: str, files: Mapping[str, Path | bytes], model: str) -> str:
        """Create the repository of "results" or "samples" and commit the files; its name."""
        from huggingface_hub import CommitOperationAdd

        user = self._user or ("" if self.target.hub_results_org else str(self._api.whoami()["name"]))
        repo = self.target.repo("details" if what == "samples" else what, user)
        self._api.create_repo(repo, repo_type="dataset", private=not self.target.public_repo, exist_ok=True)
        if what == "samples":
            if self.target.gated:
                self._api.update_repo_settings(repo, gated="auto", repo_type="dataset")
            listed = [*self._api.list_repo_files(repo, repo_type="dataset"), *files]
            files = {**files, "README.md": card(self.target, model, listed).encode()}
        operations = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=file) for name, file in files.items()]
        self._api.create_commit(repo, operations, commit_message=f"Add {what} of {model}", repo_type="dataset")
        return repo

    def _push(self, what: str, files: Mapping[str, Path], model: str) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                repo = self._commit(what, files, model)
            except Exception as error:  # noqa: BLE001  (whatever it is, the results are there)
                last = attempt == _ATTEMPTS
                then = "'multiform export RUN --to lm-eval' writes what to upload" if last else "trying once more"
                logger.warning("the %s are not on the hub: %s; %s", what, self._words(error), then)
            else:
                logger.info("the %s are on the hub: %s/datasets/%s", what, self._api.endpoint, repo)
                return

    def _words(self, error: Exception) -> str:
        return reason(error).replace(self._token, "***")[:300]


def card(target: HubTarget, model: str, files: Iterable[str]) -> str:
    """The card of a repository of samples: a configuration for each model and form, with its newest run as "latest".

    As lm-eval's, a configuration is named ``<model>__<form>`` or ``<model>__results``, its splits are dates, and those
    of older runs are in the repository alone.
    """
    from huggingface_hub import DatasetCardData

    newest: dict[str, tuple[str, str]] = {}
    for name in dict.fromkeys(files):
        path = PurePosixPath(name)
        if (match := _FILE.fullmatch(path.name)) and len(path.parts) == 2:
            config = f"{path.parent}__{re.sub(r'[^a-zA-Z0-9.-]', '_', match['form'] or 'results')}"
            newest[config] = max(newest.get(config, ("", "")), (match["date"], path.name))
    configs = [
        {
            "config_name": config,
            "data_files": [
                {"split": re.sub(r"[^\w.]", "_", date), "path": [f"**/{file}"]},
                {"split": "latest", "path": [f"**/{file}"]},
            ],
        }
        for config, (date, file) in sorted(newest.items())
    ]
    about = [("Leaderboard", target.leaderboard_url), ("Point of contact", target.point_of_contact)]
    lines = [
        f"# Evaluation of {model}",
        "Written by Multiform, in the layout of lm-eval. Each configuration is a form (a task under a prompt format) "
        "of a model; the configurations that end in `__results` have the scores.",
        "\n".join(f"* **{label}:** {value}" for label, value in about if value),
    ]
    head = DatasetCardData(pretty_name=f"Evaluation of {model}", configs=configs).to_yaml()
    return f"---\n{head}\n---\n\n" + "\n\n".join(filter(None, lines)) + "\n"


def write_eval_results(results: ResultsData, folder: Path) -> list[Path]:
    """Write ``.eval_results/<task>.yaml`` for the repository of a model: the first score of each form of each task."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    by_task: dict[str, list[EvalResultEntry]] = {}
    for form in results.forms:
        if form.estimates and is_number(value := form.estimates[form.primary].value):
            entry = EvalResultEntry(
                dataset_id=str(form.config.get("dataset_path") or form.task),
                task_id=form.task,
                value=float(value),
                date=str(results.provenance.get("date_iso") or "")[:10] or None,
                notes=f"multiform, {form.name}, {form.num_fewshot}-shot, {form.primary}",
            )
            by_task.setdefault(form.task, []).append(entry)
    files = []
    for task, entries in by_task.items():
        path = folder / ".eval_results" / f"{safe_name(task)}.yaml"
        with replace_output(path) as partial:
            text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
            partial.write_text(text, encoding="utf-8")
        files.append(path)
    return files
