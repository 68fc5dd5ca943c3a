"""Encoder-decoder models: the responses of transformers one by one, whatever the batch, and those of lm-eval."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from multiform.errors import ModelError, UsageError
from multiform.models.hf.model import HFModel
from multiform.models.tokenizer import prefix_tokens
from multiform.models.torch.engine import CausalEngine
from multiform.models.torch.plan import Pair
from multiform.models.torch.seq2seq import decoder_tokens
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, RollingRequest

pytestmark = pytest.mark.long

KINDS = ("t5", "bart", "mbart")
#: Floats of lm-eval and ours are this near for each token on a CPU.
PER_TOKEN = 3e-5

QUESTION = "Question: what is it?\nAnswer:"
PROMPTS = ["The dog", QUESTION, "long dog " * 60, "", "Question: is 12 + 30 = 42?"]
PAIRS = [
    *((QUESTION, text) for text in (" A", " B", " yes", " the dog and the cat", " no")),
    ("The dog ", "sat on the mat."),
    ("The dog\n\n", "and the cat"),
    ("", "The dog sat on the mat."),
    ("  ", "x"),
    ("</s> begun", " dog"),
    ("long dog " * 60, " dog"),
    ("Question: is 12 + 30 = 42? Answer:", " yes, the capital of France is Paris."),
]


def loglikelihoods(model: HFModel, pairs: Sequence[tuple[str, str]] = PAIRS) -> list[LLOutput]:
    outputs = dict(model.loglikelihood([LoglikelihoodRequest(*pair) for pair in pairs]))
    return [outputs[index] for index in range(len(pairs))]


def completions(model: HFModel, prompts: Sequence[str] = PROMPTS, **options: Any) -> list[Completion]:
    options = {"until": [], "max_gen_toks": 12, **options}
    outputs = dict(model.generate([GenerationRequest.of(prompt, options) for prompt in prompts]))
    return [outputs[index] for index in range(len(prompts))]


@torch.inference_mode()
def by_hand(model: HFModel, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """One pair alone, with the labels that transformers shifts by itself."""
    ids, labels = torch.tensor([context]), torch.tensor([continuation])
    logits = model.model(input_ids=ids, labels=labels).logits[0].double()
    chosen = logits.log_softmax(-1)[range(len(continuation)), continuation]
    return float(chosen.sum()), logits.argmax(-1).tolist() == continuation


@torch.inference_mode()
def written_alone(model: HFModel, prompt: str, tokens: int) -> str:
    ids = model.tokenizer(prompt, return_tensors="pt").input_ids[:, -model.max_length :]
    ids = ids if ids.numel() else torch.tensor([[model.encoder.prefix_token_id]])
    output = model.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens)
    return str(model.tokenizer.decode(output[0], skip_special_tokens=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_that_of_transformers_for_the_pair_alone(kind: str, seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq(kind)))
    for (context, text), output in zip(PAIRS, loglikelihoods(model), strict=True):
        tokenizer = model.tokenizer
        bare = context.rstrip()
        special = not bare.startswith(tokenizer.decode([model.encoder.prefix_token_id]))
        prefix = prefix_tokens(model.encoder.prefix_token_id).tolist()
        read = tokenizer.encode(bare, add_special_tokens=special) if context else prefix
        continuation = tokenizer.encode(context[len(bare) :] + text, add_special_tokens=False)
        total, greedy = by_hand(model, read[-model.max_length :], continuation)
        assert output.loglikelihood == pytest.approx(total, abs=PER_TOKEN * len(continuation)), context
        assert (output.is_greedy, output.tokens) == (greedy, len(continuation))


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_the_likeliest_token_is_the_greedy_one(kind: str, seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq(kind)))
    read = model.tokenizer.encode(QUESTION)
    pairs = [Pair(array("i", [*read, token]), len(read)) for token in range(len(model.tokenizer))]
    greedy = [position for position, output in model.engine.score(pairs) if output.is_greedy]
    assert greedy == [token for token in range(len(model.tokenizer)) if by_hand(model, read, [token])[1]]
    assert len(greedy) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_size", [1, 4])
def test_responses_do_not_depend_on_batch_and_order(kind: str, batch_size: int, seq2seq: Callable[..., Path]) -> None:
    folder = str(seq2seq(kind))
    usual, other = HFModel(folder), HFModel(folder, batch_size=batch_size)
    for a, b in zip(loglikelihoods(usual), loglikelihoods(other, PAIRS[::-1])[::-1], strict=True):
        assert a.loglikelihood == pytest.approx(b.loglikelihood, abs=PER_TOKEN * (a.tokens or 0))
        assert a.is_greedy == b.is_greedy
    assert completions(usual) == completions(other, PROMPTS[::-1])[::-1]
    sampled: dict[str, Any] = {"do_sample": True, "temperature": 0.8}
    assert completions(usual, **sampled) == completions(other, PROMPTS[::-1], **sampled)[::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_that_of_transformers_for_the_prompt_alone(kind: str, seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq(kind)))
    outputs = completions(model)
    assert [output.text for output in outputs] == [written_alone(model, prompt, 12) for prompt in PROMPTS]


def test_a_text_ends_at_its_stop_string_and_others_go_on(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("mbart")))
    first, second, *_ = completions(model)
    stop = next(character for character in second.text[1:] if character not in first.text)
    cut = completions(model, until=[stop])
    assert cut[0] == first
    assert cut[1] == Completion(second.text.partition(stop)[0], truncated=False)


def test_requests_of_several_lengths_keep_their_own(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("bart")))
    asked = [GenerationRequest.of(QUESTION, {"until": [], "max_gen_toks": number}) for number in (3, 9, 5)]
    outputs = dict(model.generate(asked))
    assert [outputs[i].text for i in range(3)] == [written_alone(model, QUESTION, number) for number in (3, 9, 5)]


def test_the_log_says_once_that_the_limit_of_tokens_is_not_lm_evals(
    seq2seq: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(seq2seq("t5")))
    with caplog.at_level("INFO", logger="multiform"):
        completions(model)
        completions(model)
    assert caplog.text.count("max_gen_toks limits the completion; lm-eval adds the prompt's tokens to it") == 1


def test_a_context_is_read_once_for_all_its_continuations(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("t5")))
    loglikelihoods(model, [(QUESTION, text) for text in (" A", " B", " C", " D")])
    first, *more = (model.tokenizer.encode(text, add_special_tokens=False) for text in (" A", " B", " C", " D"))
    rows = {tuple(tokens[:-1]) for tokens in (first, *more)}
    decoder = len(rows) * (1 + max(map(len, rows)))
    assert model.counters.prefill == len(model.tokenizer.encode(QUESTION)) + decoder


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_is_read_once_however_many_batches_its_continuations_take(
    kind: str, seq2seq: Callable[..., Path]
) -> None:
    model = HFModel(str(seq2seq(kind)), batch_size=1)
    texts = [" A dog", " the dog and the cat", " no"]
    loglikelihoods(model, [(QUESTION, text) for text in texts])  # with the trial
    read: list[int] = []
    hook = model.model.get_encoder().register_forward_hook(lambda *_: read.append(1))
    outputs = loglikelihoods(model, [(context, text) for context in (QUESTION, "The dog") for text in texts])
    hook.remove()
    assert len(read) == 2
    whole = HFModel(str(seq2seq(kind)), batch_size=8)
    expected = loglikelihoods(whole, [(context, text) for context in (QUESTION, "The dog") for text in texts])
    assert [each.loglikelihood for each in outputs] == pytest.approx(
        [each.loglikelihood for each in expected], abs=1e-4
    )


def test_an_empty_continuation_is_certain(seq2seq: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    model = HFModel(str(seq2seq("t5")))
    assert loglikelihoods(model, [(QUESTION, ""), ("", "")]) == [LLOutput(0.0, True, 0)] * 2
    assert "2 continuations are empty" in caplog.text


def test_a_continuation_that_is_too_long_is_an_error(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("bart")))
    with pytest.raises(ModelError, match=r"the continuation has \d+ tokens and the model reads at most 96"):
        loglikelihoods(model, [("a", "!" * 120)])


def test_a_context_that_is_too_long_loses_its_beginning(
    seq2seq: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(seq2seq("t5")), max_length=8)
    [long] = loglikelihoods(model, [("Answer: " * 30, " yes")])
    tokens = model.tokenizer.encode(("Answer: " * 30).rstrip())[-8:]
    expected, _ = by_hand(model, tokens, model.tokenizer.encode("  yes", add_special_tokens=False))
    assert long.loglikelihood == pytest.approx(expected, abs=1e-3)
    assert "1 contexts lose their beginning: the model reads 8 tokens" in caplog.text


def test_learned_positions_bound_what_is_written(seq2seq: Callable[..., Path]) -> None:
    assert len(completions(HFModel(str(seq2seq("t5"))), ["The dog"], max_gen_toks=120)) == 1
    with pytest.raises(UsageError, match="max_gen_toks is 120 and the model reads 96 tokens in all"):
        completions(HFModel(str(seq2seq("bart"))), max_gen_toks=120)


def test_a_penalty_counts_what_was_written_and_not_the_prompt(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("mbart")))
    ids = model.tokenizer(QUESTION, return_tensors="pt").input_ids
    output = model.model.generate(input_ids=ids, max_new_tokens=12, repetition_penalty=1.7, do_sample=False)
    [penalised] = completions(model, [QUESTION], repetition_penalty=1.7)
    assert penalised.text == model.tokenizer.decode(output[0], skip_special_tokens=True)


def test_running_out_of_memory_halves_the_batch(
    seq2seq: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(seq2seq("bart")))
    sampled: dict[str, Any] = {"do_sample": True}
    expected = loglikelihoods(model), completions(model, **sampled)
    usual = model.model.get_decoder().forward

    def forward(input_ids: Any = None, **options: Any) -> Any:
        if len(input_ids) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return usual(input_ids=input_ids, **options)

    monkeypatch.setattr(model.model.get_decoder(), "forward", forward)
    assert [a.loglikelihood for a in loglikelihoods(model)] == pytest.approx(
        [a.loglikelihood for a in expected[0]], abs=1e-3
    )
    assert completions(model, **sampled) == expected[1]
    assert "going on with half of that" in caplog.text


def test_the_log_says_once_that_prefixes_are_not_shared(
    seq2seq: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(seq2seq("t5")))
    loglikelihoods(model)
    completions(model)
    assert caplog.text.count("prefixes are not shared, which takes longer: the model is an encoder-decoder") == 1


def test_beams_are_searched(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("mbart")))
    prompts = ["The dog", QUESTION, "Question: is 12 + 30 = 42?"]
    usual = completions(model, prompts)
    model.model.generation_config.num_beams = 4
    searched = completions(model, prompts)
    for prompt, completion in zip(prompts, searched, strict=True):
        ids = model.tokenizer(prompt, return_tensors="pt").input_ids
        output = model.model.generate(input_ids=ids, max_new_tokens=12, do_sample=False)
        assert completion.text == model.tokenizer.decode(output[0], skip_special_tokens=True)
    assert searched != usual
    assert completions(model, prompts, num_beams=1) == usual


def test_a_plan_says_what_encoder_and_decoder_read(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("t5")))
    length = len(model.tokenizer.encode(QUESTION))
    requests = [LoglikelihoodRequest(QUESTION, " A"), LoglikelihoodRequest(QUESTION, " B")]
    plan = model.plan([*requests, RollingRequest("A"), GenerationRequest.of(QUESTION, {"max_gen_toks": 3})])
    assert plan is not None
    scored, whole, prompts = plan.splitlines()
    assert scored.startswith("continuations: 2 sequences of ")
    assert whole == "whole texts: 1 sequences of 3 tokens in batches, without shared prefixes"
    assert prompts == f"prompts: 1 sequences of {length} tokens in batches, without shared prefixes"


def test_the_backend_is_found_or_named(seq2seq: Callable[..., Path], tmp_path: Path) -> None:
    folder = seq2seq("bart")
    assert HFModel(str(folder)).identity == HFModel(str(folder), backend="seq2seq").identity
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    decoder = HFModel(str(tmp_path))
    assert isinstance(decoder.engine, CausalEngine)
    assert decoder.identity == HFModel(str(tmp_path), backend="causal").identity


def test_a_causal_backend_is_refused_where_the_files_have_none(seq2seq: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="cannot load the model: Unrecognized configuration class"):
        HFModel(str(seq2seq("t5")), backend="causal")
    with pytest.raises(ModelError, match="the checkpoint lacks 2 of the model's weights"):
        HFModel(str(seq2seq("bart")), backend="causal")


def test_the_results_file_knows_the_model(seq2seq: Callable[..., Path]) -> None:
    model = HFModel(str(seq2seq("t5")))
    assert model.info()["model_num_parameters"] == model.model.num_parameters()
    assert model.tokenizer_info()["max_length"] == 96


def instances(arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [type("Instance", (), {"args": item, "task_name": "test"})() for item in arguments]


# lm-eval pads prompts of a batch at the left, which moves learned positions, and mBART takes the padding of a shorter
# continuation for its last token; one request at a time shows what it means.
BATCHES = [("t5", 1), ("t5", 4), ("bart", 1), ("mbart", 1)]


@pytest.mark.parity
@pytest.mark.parametrize(("kind", "batch_size"), [*BATCHES, ("bart", 4)])
def test_scores_are_those_of_lm_eval(kind: str, batch_size: int, hflm: Any, seq2seq: Callable[..., Path]) -> None:
    folder = str(seq2seq(kind))
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=batch_size)
    ours = HFModel(folder)
    expected = theirs.loglikelihood(instances(PAIRS), disable_tqdm=True)
    for output, (loglikelihood, greedy) in zip(loglikelihoods(ours), expected, strict=True):
        assert output.loglikelihood == pytest.approx(loglikelihood, abs=PER_TOKEN * (output.tokens or 0))
        assert output.is_greedy == greedy


@pytest.mark.parity
@pytest.mark.parametrize("length", [16, 96])
@pytest.mark.parametrize("kind", KINDS)
def test_rolling_scores_are_those_of_lm_eval(kind: str, length: int, hflm: Any, seq2seq: Callable[..., Path]) -> None:
    folder = str(seq2seq(kind))
    texts = [QUESTION, "The dog", "Answer: " * 30]
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=1, max_length=length)
    expected = theirs.loglikelihood_rolling(instances([(text,) for text in texts]), disable_tqdm=True)
    outputs = dict(HFModel(folder, max_length=length).loglikelihood_rolling([RollingRequest(text) for text in texts]))
    for index, loglikelihood in enumerate(expected):
        tolerance = PER_TOKEN * (outputs[index].tokens or 0)
        assert outputs[index].loglikelihood == pytest.approx(loglikelihood, abs=tolerance)


@pytest.mark.parity
@pytest.mark.parametrize("options", [{}, {"until": ["a", "\x02"]}, {"max_gen_toks": 20}])
@pytest.mark.parametrize(("kind", "batch_size"), BATCHES)
def test_texts_are_those_of_lm_eval(
    kind: str, batch_size: int, options: dict[str, Any], hflm: Any, seq2seq: Callable[..., Path]
) -> None:
    folder = str(seq2seq(kind))
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=batch_size)
    given = {"until": [], "max_gen_toks": 12, **options}
    # lm-eval lets an encoder-decoder write as many tokens more as its prompt has, unless it is told a `max_length`.
    asked = [(prompt, {**given, "max_length": given["max_gen_toks"] + 1}) for prompt in PROMPTS]
    expected = theirs.generate_until(instances(asked), disable_tqdm=True)
    assert [output.text for output in completions(HFModel(folder), **given)] == expected


@pytest.mark.parametrize(("kind", "first"), [("t5", 2), ("bart", 1), ("mbart", 7)])
def test_the_decoder_begins_as_the_model_does(kind: str, first: int, seq2seq: Callable[..., Path]) -> None:
    assert decoder_tokens(HFModel(str(seq2seq(kind))).model, [5, 6, 7]) == [first, 5, 6]
