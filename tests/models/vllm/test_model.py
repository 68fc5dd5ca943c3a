"""VLLMModel against `hf` on the same weights, with a stand-in for vLLM that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import GenerationRequest, LoglikelihoodRequest, RollingRequest, evaluate
from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.hf.model import HFModel
from multiform.models.vllm.model import RESERVED, VLLMModel
from multiform.stopping import request_stop, stoppable
from tests.models.vllm import fake_vllm

pytestmark = pytest.mark.long

QUESTION = "Question: is 12 + 30 = 42? Question: what is it?\nAnswer:"
SCORED = [
    LoglikelihoodRequest(QUESTION, " yes"),
    LoglikelihoodRequest(QUESTION, " no"),
    LoglikelihoodRequest(QUESTION, " the capital of France is Paris."),
    LoglikelihoodRequest(QUESTION, " a dog"),
    LoglikelihoodRequest("The dog and the cat", " sat on the mat"),
    LoglikelihoodRequest("", "A dog is a good dog, and do dogs dig?"),
    LoglikelihoodRequest("", ""),
    LoglikelihoodRequest("The dog ", "and the cat"),
]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_vllm.Fake]:
    with fake_vllm.installed(monkeypatch) as fake:
        yield fake


def scores(model: Any, requests: Any) -> list[tuple[float, bool, int | None]]:
    ask = model.loglikelihood if isinstance(requests[0], LoglikelihoodRequest) else model.loglikelihood_rolling
    outputs = dict(ask(requests))
    assert sorted(outputs) == list(range(len(requests)))
    return [(outputs[i].loglikelihood, outputs[i].is_greedy, outputs[i].tokens) for i in range(len(requests))]


def assert_equal(ours: list[tuple[float, bool, int | None]], theirs: list[tuple[float, bool, int | None]]) -> None:
    assert [each[1:] for each in ours] == [each[1:] for each in theirs]
    assert [each[0] for each in ours] == pytest.approx([each[0] for each in theirs], abs=1e-4)


@pytest.mark.parametrize("bos", [False, True])
def test_scores_are_those_of_hf(bos: bool, tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    folder = str(tiny(bos=bos))
    assert_equal(scores(VLLMModel(folder), SCORED), scores(HFModel(folder), SCORED))


def test_labels_take_one_step_texts_are_forced_and_longer_ones_than_their_context_are_prompts(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    model = VLLMModel(str(tiny()))
    scores(model, [LoglikelihoodRequest(QUESTION, label) for label in ("\n", "A", "B", "C")])
    assert vllm.kinds() == ["labels"]
    vllm.asked.clear()
    scores(model, SCORED[2:3])
    assert vllm.kinds() == ["forced"]
    vllm.asked.clear()
    scores(model, SCORED[5:6])
    assert vllm.kinds() == ["prompt"]


def test_what_greedy_decoding_writes_is_greedy(tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    model = VLLMModel(str(tiny()))
    text = next(iter(model.generate([GenerationRequest.of(QUESTION, {"max_gen_toks": 3})])))[1].text
    outputs = dict(model.loglikelihood([LoglikelihoodRequest(QUESTION, text), LoglikelihoodRequest(QUESTION, "zq")]))
    assert [outputs[0].is_greedy, outputs[1].is_greedy] == [True, False]


@pytest.mark.parametrize(
    ("behaviour", "kinds", "words"),
    [
        ({}, {"labels", "forced", "prompt"}, "forced tokens, labels in one step"),
        ({"uses_v2": True}, {"labels", "forced", "prompt"}, "forced tokens, labels in one step"),
        ({"ignores_forced": True}, {"labels", "prompt"}, "labels in one step, others by prompt log-probabilities"),
        ({"refuses_forced": True}, {"labels", "prompt"}, "labels in one step, others by prompt log-probabilities"),
        ({"older": True}, {"prompt"}, "prompt log-probabilities"),
    ],
)
def test_what_a_version_cannot_do_is_scored_otherwise_and_said(
    behaviour: dict[str, Any],
    kinds: set[str],
    words: str,
    tiny: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    requests = [*SCORED, LoglikelihoodRequest(QUESTION, "\n")]
    with fake_vllm.installed(monkeypatch, **behaviour) as fake:
        model = VLLMModel(str(tiny()))
        assert_equal(scores(model, requests), scores(HFModel(str(tiny())), requests))
        assert set(fake.kinds()) == kinds
    assert model.info()["vllm_scoring"] == words
    is_warned = "cannot be made to generate given tokens" in caplog.text
    assert is_warned == ("forced" not in kinds)


def test_log_probabilities_of_what_was_forced_alone_are_not_taken_for_the_models(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_vllm.installed(monkeypatch, logprobs_of_forced_only=True):
        model = VLLMModel(str(tiny()))
        assert not model.engine.abilities.forced


def test_scoring_by_prompt_log_probabilities_can_be_chosen(tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    model = VLLMModel(str(tiny()), scoring="prompt_logprobs")
    assert_equal(scores(model, SCORED), scores(HFModel(str(tiny())), SCORED))
    assert set(vllm.kinds()) == {"prompt"}


def test_prompts_are_asked_in_prefix_order_and_what_the_cache_had_is_not_counted(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    contexts = [f"{QUESTION} number {number}:" for number in (2, 1, 3)] * 2
    requests = [LoglikelihoodRequest(context, f" it is {i}") for i, context in enumerate(contexts)]
    model = VLLMModel(str(tiny()))
    scores(model, requests)
    prompts = [prompt for prompt, _ in vllm.asked if prompt != (1, 2)]
    assert prompts == sorted(prompts)
    usage, workload = model.usage(), model.workload(requests)
    assert usage is not None
    assert workload is not None
    assert usage.unshared == workload.unshared
    assert workload.prefill <= usage.prefill < usage.unshared / 2


def test_rolling_log_likelihoods_are_those_of_hf_with_the_same_windows(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    requests = [
        RollingRequest("A dog is a good dog, and do dogs dig? " * 6),
        RollingRequest("Paris"),
        RollingRequest(""),
    ]
    ours = VLLMModel(str(tiny()), max_length=40)
    theirs = HFModel(str(tiny()), max_length=40 - RESERVED)
    assert_equal(scores(ours, requests), scores(theirs, requests))


def test_contexts_that_are_too_long_lose_their_beginning_and_are_marked(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake, caplog: pytest.LogCaptureFixture
) -> None:
    request = LoglikelihoodRequest("The dog and the cat sat on the mat. " * 8, " do dogs dig?")
    ours = VLLMModel(str(tiny()), max_model_len=32)
    theirs = HFModel(str(tiny()), max_length=32 - RESERVED)
    assert_equal(scores(ours, [request]), scores(theirs, [request]))
    assert dict(ours.loglikelihood([request]))[0].context_truncated
    assert "1 contexts lose their beginning" in caplog.text


@pytest.mark.parametrize(
    "gen_kwargs",
    [
        {"max_gen_toks": 12},
        {"max_gen_toks": 12, "until": ["o"]},
        {"max_gen_toks": 12, "until": ["</s>", "\n"]},
        {"max_tokens": 5, "temperature": 0.0, "do_sample": False},
    ],
)
def test_greedy_completions_are_those_of_hf(
    gen_kwargs: dict[str, Any], tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    texts = [QUESTION, "The dog and", "", "do"]
    requests = [GenerationRequest.of(text, gen_kwargs) for text in texts]
    assert dict(VLLMModel(str(tiny())).generate(requests)) == dict(HFModel(str(tiny())).generate(requests))


def test_sampled_completions_have_a_seed_of_their_own(tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    options = {"max_gen_toks": 2, "temperature": 0.8, "top_p": 0.9}
    requests = [GenerationRequest.of(QUESTION, options, sample) for sample in range(2)]
    for _ in range(2):
        list(VLLMModel(str(tiny())).generate(requests))
    seeds = [params.seed for _, params in vllm.asked if params.top_p == 0.9]
    assert len(seeds) == 4
    assert len(set(seeds)) == 2
    assert {params.top_k for _, params in vllm.asked if params.top_p == 0.9} == {50}


def test_a_run_has_the_results_of_hf_and_says_how_it_scored(tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    tasks = ["quiz@mcqa", "quiz@cloze", "quiz@generate"]
    options: dict[str, Any] = {"tasks": tasks, "limit": 3, "gen_kwargs": {"max_gen_toks": 4}, "use_cache": False}
    arguments = {"pretrained": str(tiny())}
    ours = evaluate(model="vllm", model_args={**arguments, "max_length": 96 + RESERVED}, **options)
    theirs = evaluate(model="hf", model_args=arguments, **options)
    for mine, other in zip(ours.samples(), theirs.samples(), strict=True):
        assert mine["prompt"] == other["prompt"]
        assert (mine["picked"], mine["extracted"]) == (other["picked"], other["extracted"])
    assert ours.run["vllm_scoring"] == "forced tokens, labels in one step"


def test_a_stop_ends_scoring_after_the_chunk_that_is_computed(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiform.models.vllm.engine.FIRST_CHUNK", 2)
    model = VLLMModel(str(tiny()))
    requests = [LoglikelihoodRequest(QUESTION, f" it is {number}") for number in range(8)]
    answered = 0
    with stoppable():
        for _ in model.loglikelihood(requests):
            request_stop()
            answered += 1
    assert answered == 2


def test_settings_that_change_responses_change_the_identity_and_others_do_not(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    def identity(**arguments: Any) -> str:
        return VLLMModel(str(tiny()), **arguments).identity

    same = {identity(), identity(gpu_memory_utilization=0.5), identity(batch_size=4), identity(tensor_parallel_size=1)}
    assert len(same) == 1
    others: list[dict[str, Any]] = [
        {"max_length": 50},
        {"kv_cache_dtype": "fp8"},
        {"add_bos_token": True},
        {"think_end_token": "so"},
    ]
    assert len(same | {identity(**each) for each in others}) == 5
    assert not same & {HFModel(str(tiny())).identity}


def test_arguments_go_to_the_engine(tiny: Callable[..., Path], vllm: fake_vllm.Fake) -> None:
    VLLMModel(str(tiny()), batch_size=4, max_model_len=64, gpu_memory_utilization=0.5, enforce_eager=True, swap_space=4)
    sent = {name: vllm.arguments[name] for name in ("max_num_seqs", "max_model_len", "gpu_memory_utilization", "seed")}
    assert sent == {"max_num_seqs": 4, "max_model_len": 64, "gpu_memory_utilization": 0.5, "seed": 1234}
    assert vllm.arguments["dtype"] == "float32"  # on a CPU
    assert "swap_space" not in vllm.arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "the model 'vllm' needs the argument 'pretrained'"),
        ({"data_parallel_size": 2}, "'data_parallel_size' is not supported; use --executor ray --workers N"),
        ({"gpu_memory_utilisation": 0.5}, "unknown model argument 'gpu_memory_utilisation'; did you mean 'gpu_mem"),
        ({"parallelize": True}, "give tensor_parallel_size=N"),
        ({"peft": "adapter"}, "merge the adapter"),
        ({"logprobs_mode": "processed_logprobs"}, "it would change scores"),
        ({"max_length": 20, "max_model_len": 30}, "max_length is 20 and max_model_len 30"),
        ({"scoring": "echo"}, "unknown scoring 'echo'"),
        ({"batch_size": "many"}, "batch_size must be a positive number"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], words: str, tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    given = {"pretrained": str(tiny()), **arguments} if arguments else {}
    with pytest.raises(UsageError) as error:
        VLLMModel(**given)
    assert words in str(error.value)


def test_a_folder_that_does_not_exist_is_one_line(vllm: fake_vllm.Fake) -> None:
    with pytest.raises(ModelError, match="folder '/no/such' does not exist"):
        VLLMModel("/no/such")


def test_an_engine_that_does_not_start_is_one_line(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**arguments: Any) -> Any:
        raise ValueError(f"tensor_parallel_size is {arguments['tensor_parallel_size']}, and there is one GPU")

    monkeypatch.setattr("vllm.LLM", broken)
    with pytest.raises(ModelError, match="vLLM cannot load the model: tensor_parallel_size is 2, and there is one GPU"):
        VLLMModel(str(tiny()), tensor_parallel_size=2)


def test_without_vllm_one_line_says_how_to_install_it(tiny: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"needs the package 'vllm'; run: pip install 'multiform\[vllm\]'"):
        VLLMModel(str(tiny()))


def test_beam_search_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="vLLM has no beam search"):
        models.get("vllm").check_generation({"num_beams": 3})


def test_settings_of_the_models_generation_config_that_vllm_does_not_follow_are_refused(
    tiny: Callable[..., Path], vllm: fake_vllm.Fake
) -> None:
    model = VLLMModel(str(tiny()))
    model.files.generation_config.no_repeat_ngram_size = 2
    with pytest.raises(UsageError, match="sets no_repeat_ngram_size, which vLLM does not follow"):
        list(model.generate([GenerationRequest.of(QUESTION, {})]))
