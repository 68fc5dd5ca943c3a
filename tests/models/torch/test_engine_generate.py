"""Generation: each row as if it were alone, ended where it should be."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from multiform.errors import UsageError
from multiform.models.hf.model import HFModel
from multiform.models.model import Counters
from multiform.models.torch.decode_batch import PaddedBatch
from multiform.models.torch.device import BUDGET_SHARE
from multiform.models.torch.planner import Decoding
from multiform.models.torch.sampling import Sampling, next_token
from multiform.requests import GenerationRequest

PROMPTS = [
    "The dog",
    "Question: what is it?\nAnswer:",
    "A",
    "the capital of France is Paris. Is 12 + 30 = 42? and the cat",
    "do",
    "xxxxxxxxxx",
    "cat sat on",
]


def ask(model: HFModel, prompts: Sequence[str], **options: Any) -> list[str]:
    outputs = dict(model.generate([GenerationRequest.of(prompt, options) for prompt in prompts]))
    return [outputs[index].text for index in range(len(prompts))]


def transformers_text(model: HFModel, prompt: str, count: int) -> str:
    ids = torch.tensor([model.encoder.prompts([prompt])[prompt].tolist()])
    mask = torch.ones_like(ids)
    pad = model.tokenizer.pad_token_id
    output = model.model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=pad)
    return str(model.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "mamba"])
def test_greedy_text_is_that_of_transformers_one_by_one(kind: str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)), batch_size=3, max_length=96)
    counts = [9 + 2 * index for index in range(len(PROMPTS))]
    requests = [
        GenerationRequest.of(prompt, {"max_gen_toks": count}) for prompt, count in zip(PROMPTS, counts, strict=True)
    ]
    outputs = dict(model.generate(requests))
    expected = [transformers_text(model, prompt, count) for prompt, count in zip(PROMPTS, counts, strict=True)]
    assert [outputs[index].text for index in range(len(PROMPTS))] == expected


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [1, 2, 7, "auto"])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_text_depends_on_neither_batch_size_nor_order(
    batch_size: int | str, temperature: float, llama: HFModel, tiny: Callable[..., Path]
) -> None:
    options = {"max_gen_toks": 10, "temperature": temperature}
    expected = dict(zip(PROMPTS, ask(llama, PROMPTS, **options), strict=True))
    model = HFModel(str(tiny()), batch_size=batch_size)
    order = random.Random(3).sample(PROMPTS, len(PROMPTS))
    assert dict(zip(order, ask(model, order, **options), strict=True)) == expected


def test_text_ends_before_the_first_stop_string(llama: HFModel) -> None:
    (whole,) = ask(llama, ["A"], max_gen_toks=40)
    stop, later = re.findall(r"[a-zA-Z ]{2}", whole)[:2]
    (cut,) = ask(llama, ["A"], max_gen_toks=40, until=[later, stop])
    assert cut == whole[: whole.index(stop)]
    assert cut


@pytest.mark.bundled
def test_a_stop_string_is_found_across_tokens(bundled_text: tuple[HFModel, str, str]) -> None:
    model, prompt, whole = bundled_text
    words = whole.split(" ")
    stop = f"{words[1][-1]} {words[2][0]}"
    (cut,) = ask(model, [prompt], max_gen_toks=20, until=stop)
    assert cut == whole[: whole.index(stop)]


@pytest.fixture
def bundled_text(bundled: HFModel) -> tuple[HFModel, str, str]:
    prompt = bundled.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}])
    return bundled, prompt, ask(bundled, [prompt], max_gen_toks=20)[0]


@pytest.mark.bundled
def test_bundled_greedy_text_is_that_of_transformers_one_by_one(bundled: HFModel) -> None:
    questions = ["What is the capital of France?", "Name three fruits.", "Why is the sky blue?", "What is 2 + 2?"]
    prompts = [bundled.apply_chat_template([{"role": "user", "content": text}]) for text in questions]
    assert ask(bundled, prompts, max_gen_toks=16) == [transformers_text(bundled, text, 16) for text in prompts]


def test_a_stop_string_in_the_prompt_is_not_one_in_the_text(llama: HFModel) -> None:
    assert ask(llama, ["The dog"], max_gen_toks=8, until="The dog") == ask(llama, ["The dog"], max_gen_toks=8)


def test_a_text_at_the_limit_is_truncated_and_one_at_a_stop_is_not(llama: HFModel) -> None:
    (whole,) = ask(llama, ["A"], max_gen_toks=8)
    requests = [
        GenerationRequest.of("A", {"max_gen_toks": 8}),
        GenerationRequest.of("A", {"max_gen_toks": 8, "until": [whole[3]]}),
    ]
    outputs = dict(llama.generate(requests))
    assert [outputs[0].truncated, outputs[1].truncated] == [True, False]


def test_a_text_ends_at_an_end_token_of_the_generation_config(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    (whole,) = dict(model.generate([GenerationRequest.of("A", {"max_gen_toks": 6})])).values()
    assert whole.truncated
    third = next(iter(greedy_tokens(model, "A", 3)[2:]))
    model.model.generation_config.eos_token_id = [third]
    (ended,) = dict(model.generate([GenerationRequest.of("A", {"max_gen_toks": 6})])).values()
    assert ended.text == model.tokenizer.decode(greedy_tokens(model, "A", 3))
    assert not ended.truncated


def greedy_tokens(model: HFModel, prompt: str, count: int) -> list[int]:
    ids = model.encoder.prompts([prompt])[prompt].tolist()
    start = len(ids)
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(model.model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[start:]


def test_a_special_token_as_stop_string_ends_the_text(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    ids = torch.tensor([model.encoder.prompts(["A"])["A"].tolist()])
    unknown = model.tokenizer.convert_tokens_to_ids("<unk>")
    with torch.no_grad():
        best = int(model.model(ids).logits[0, -1].argmax())
        weight = model.model.get_output_embeddings().weight
        weight[unknown] = 2 * weight[best]
    output = dict(model.generate([GenerationRequest.of("A", {"max_gen_toks": 5, "until": ["<unk>"]})]))[0]
    assert (output.text, output.truncated) == ("", False)


def test_a_long_prompt_keeps_its_end(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()), max_length=20)
    long = "The dog and the cat sat on the mat. " * 5
    tokens = model.encoder.prompts([long])[long].tolist()
    tail = str(model.tokenizer.decode(tokens[-12:]))
    assert model.encoder.prompts([tail])[tail].tolist() == tokens[-12:]
    assert ask(model, [long], max_gen_toks=8) == ask(model, [tail], max_gen_toks=8)


def test_a_limit_that_leaves_no_room_for_a_prompt_is_an_error(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()), max_length=20)
    with pytest.raises(UsageError, match="max_gen_toks is 20 and the model reads 20 tokens in all"):
        ask(model, ["A"], max_gen_toks=20)


def test_rows_take_the_places_of_those_that_left(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()), batch_size=2)
    assert model.planner.decoding(128) is Decoding.SHARED
    limits = [2, 12, 3, 3]
    list(model.generate([GenerationRequest.of("A", {"max_gen_toks": limit}) for limit in limits]))
    # The prompt gives the first token. The long row needs 11 passes more, and the others fit beside it.
    assert model.counters.decode == sum(limit - 1 for limit in limits)
    assert model.counters.passes <= 11 + len(limits)


def test_samples_of_one_request_differ_and_repeat(llama: HFModel) -> None:
    options = {"max_gen_toks": 8, "temperature": 1.0}
    requests = [GenerationRequest.of("The dog", options, sample) for sample in range(4)]
    first, second = dict(llama.generate(requests)), dict(llama.generate(requests))
    assert first == second
    assert len({answer.text for answer in first.values()}) > 1


@pytest.mark.long
def test_running_out_of_memory_halves_the_batch_and_loses_no_token(tiny: Callable[..., Path]) -> None:
    options = {"max_gen_toks": 12, "temperature": 0.8}
    expected = ask(HFModel(str(tiny()), batch_size=1), PROMPTS, **options)
    model = HFModel(str(tiny()), batch_size=6)
    passes = 0

    def fail(_: Any, __: Any, options: dict[str, Any]) -> None:
        nonlocal passes
        passes += 1
        if len(options["input_ids"]) > 3 and passes > 4:
            raise torch.OutOfMemoryError("out of memory")

    hook = model.model.model.register_forward_pre_hook(fail, with_kwargs=True)
    assert ask(model, PROMPTS, **options) == expected
    hook.remove()


def test_as_many_texts_are_written_at_a_time_as_free_memory_has_room_for(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ask(HFModel(str(tiny())), PROMPTS, max_gen_toks=12)
    model = HFModel(str(tiny()), batch_size=len(PROMPTS))
    longest = max(len(model.tokenizer(prompt)["input_ids"]) for prompt in PROMPTS) + 12
    free = BUDGET_SHARE * 2 * longest * model.planner.token_bytes
    monkeypatch.setattr("multiform.models.torch.device.free_memory", lambda _: free)
    rows: list[int] = []
    model.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, given: rows.append(len(given[0])) if given[0].shape[1] == 1 else None
    )
    assert ask(model, PROMPTS, max_gen_toks=12) == expected
    assert 2 <= max(rows) < len(PROMPTS)


def test_joined_rows_are_the_rows_apart(llama: HFModel) -> None:
    rows = [[5, 9, 30, 31], [40, 41], [7, 8, 9, 10, 11, 12]]
    together = PaddedBatch(llama.planner.lm, Counters())
    with torch.inference_mode():
        together.prefill(rows[:1], [0])
        together.decode([50])
        together.prefill(rows[1:], [0, 0])
        together.keep([0, 2])
        joint = together.decode([51, 52])
        alone = [llama.model(torch.tensor([ids])).logits[0, -1] for ids in ([*rows[0], 50, 51], [*rows[2], 52])]
    assert torch.allclose(joint, torch.stack(alone), atol=1e-4)
    assert together.mask.shape[1] == 7


@pytest.mark.parametrize(
    ("how", "possible"),
    [
        (Sampling(temperature=1.0), {0, 1, 2, 3}),
        (Sampling(temperature=1.0, top_k=2), {2, 3}),
        (Sampling(temperature=1.0, top_p=0.5), {3}),
        (Sampling(temperature=1.0, top_p=0.7), {2, 3}),
        (Sampling(temperature=1.0, min_p=0.3), {2, 3}),
        (Sampling(temperature=0.01), {3}),
        (Sampling(temperature=0.0), {3}),
    ],
    ids=str,
)
def test_sampling_chooses_among_the_tokens_that_its_settings_leave(how: Sampling, possible: set[int]) -> None:
    numbers = random.Random(1)
    chosen = {next_token(chances(), torch.tensor([0]), how, numbers) for _ in range(300)}
    assert chosen == possible


def test_sampling_follows_the_probabilities() -> None:
    numbers = random.Random(1)
    counts = Counter(next_token(chances(), torch.tensor([0]), Sampling(temperature=1.0), numbers) for _ in range(4000))
    assert [counts[token] / 4000 for token in range(4)] == pytest.approx([0.1, 0.1, 0.2, 0.6], abs=0.03)


def test_a_repetition_penalty_holds_back_what_was_said() -> None:
    how = Sampling(temperature=0.0, repetition_penalty=20.0)
    assert next_token(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2]), how, random.Random(1)) == 1


def chances() -> Tensor:
    return torch.tensor([0.1, 0.1, 0.2, 0.6]).log()


def test_a_processor_writes_few_texts_at_a_time_unless_told_otherwise(tiny: Callable[..., Path]) -> None:
    assert HFModel(str(tiny())).generation_limits.rows == 16
    assert HFModel(str(tiny()), max_batch_size=4).generation_limits.rows == 4
    assert HFModel(str(tiny()), batch_size=40).generation_limits.rows == 40
