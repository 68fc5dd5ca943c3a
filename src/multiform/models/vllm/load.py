"""The files of a model that vLLM runs: its tokenizer, its generation config and the hash of its content."""

from __future__ import annotations

from dataclasses import dataclass, replace

from transformers import GenerationConfig, PreTrainedTokenizerBase

from multiform.models.hf.load import load_tokenizer, source_sha, without_progress_bars
from multiform.models.hf.source import Source, file_options, hub_commit, local_folder, model_errors
from multiform.models.vllm.completions import load_generation_config


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is known of a model without its weights; `location` is its folder or hub name, `revision` its commit."""

    name: str
    location: str
    is_local: bool
    revision: str
    sha: str
    tokenizer: PreTrainedTokenizerBase
    generation_config: GenerationConfig


def load_files(source: Source) -> Files:
    """The files of a source; a ModelError where there are none."""
    folder = local_folder(source.pretrained)
    if source.tokenizer:
        local_folder(source.tokenizer, "tokenizer")
    with without_progress_bars(), model_errors(source, folder):
        if not folder:  # all files are of one commit, even if the branch moves in between
            source = replace(source, revision=hub_commit(source.pretrained, source.revision))
        location = str(folder or source.pretrained)
        return Files(
            name=folder.name if folder else source.pretrained,
            location=location,
            is_local=folder is not None,
            revision=source.revision,
            sha=source_sha(source, folder),
            tokenizer=load_tokenizer(source, folder),
            generation_config=load_generation_config(location, **file_options(source, folder)),
        )
