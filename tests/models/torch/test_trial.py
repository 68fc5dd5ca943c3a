"""The trial: models that would give other numbers with shared prefixes or in batches are found out before the run."""

from __future__ import annotations

import json
import logging
import random
import shutil
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from multiform.models.hf.model import HFModel
from multiform.models.torch import planner as planner_module
from multiform.models.torch import structure
from multiform.models.torch.forward import CausalLM, ScoringWay
from multiform.models.torch.plan import Pair
from multiform.models.torch.planner import Decoding, Planner, TrialRecords
from multiform.models.torch.scoring import scoring_plan
from multiform.models.torch.structure import is_known, judge_each, selects_tokens, verified_ways
from multiform.models.torch.trial import (
    PASSES,
    ScoringTrial,
    loglikelihood_alone,
    scoring_trial,
    trial_length,
    trial_pairs,
)
from multiform.requests import GenerationRequest, LoglikelihoodRequest
from tests.models.torch.engines import engine_of
from tests.tiny_models import llama_config, make_tokenizer
from tools.zoo import custom
from tools.zoo.models import CUSTOM, scaled, zoo_model

SHOTS = "Question: what is it?\nAnswer: yes, the cat sat on the mat. A dog is a good dog, and do dogs dig?\n\n"
QUESTIONS = ["is 12 + 30 = 42?", "what is the capital of France?", "what sat on the mat?"]
REQUESTS = [
    LoglikelihoodRequest(f"{SHOTS}{SHOTS[:end]}Question: {question}\nAnswer:", choice)
    for question in QUESTIONS
    for end in (0, 40)
    for choice in (" yes", " Paris is the capital")
]
PROMPTS = [SHOTS + question for question in QUESTIONS] + ["The dog", "A"]


def save(folder: Path, model: Any) -> Path:
    """Save a model with the tiny tokenizer, and with its code where it has some of its own."""
    torch.manual_seed(7)
    scaled(model).save_pretrained(folder)
    make_tokenizer(bos=False).save_pretrained(folder)
    if type(model).__module__ == custom.__name__:
        shutil.copy(custom.__file__, folder / "custom.py")
        path = folder / "config.json"
        config = json.loads(path.read_text())
        config["auto_map"] = {"AutoModelForCausalLM": f"custom.{type(model).__name__}"}
        if isinstance(model, custom.CustomForCausalLM):
            config["auto_map"]["AutoConfig"] = "custom.CustomConfig"
        path.write_text(json.dumps(config))
    return folder


def tiny_llama(kind: type = transformers.LlamaForCausalLM, **options: Any) -> Any:
    defaults = {"max_position_embeddings": 160, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    return kind(llama_config(400, **(defaults | options)))


def plain(model: HFModel, request: LoglikelihoodRequest) -> float:
    (pair,) = model.encoder.pairs([(request.context, request.continuation)])
    with torch.no_grad():
        logits = model.model(input_ids=torch.tensor([pair.tokens[:-1].tolist()])).logits[0, pair.start - 1 :]
    targets = torch.tensor(pair.continuation)
    return float(logits.double().log_softmax(-1)[range(len(targets)), targets].sum())


def greedy(model: HFModel, prompt: str, count: int) -> str:
    ids = model.encoder.prompts([prompt])[prompt].tolist()
    start = len(ids)
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return str(model.tokenizer.decode(ids[start:], skip_special_tokens=True))


def test_the_trial_branches_keeps_and_crosses_passes() -> None:
    pairs = trial_pairs(120, range(5, 400))
    planned = scoring_plan(pairs, size=120 // PASSES, budget=2**31)
    assert planned.cost.passes >= PASSES
    assert planned.cost.cached >= 90
    assert planned.cost.tokens > 2 * planned.cost.computed
    assert sum(branch.shared > 30 for branch in planned.branches) == 4
    # A branch comes before the end of the longest sequence in the tree, and others come after it.
    longest = [len(branch.tokens) - branch.shared for branch in planned.branches]
    assert 0 < longest.index(max(longest)) < len(longest) - 1


@pytest.mark.parametrize("longest", [1, 100, 128, 129, 1000, 5000])
def test_the_trial_is_as_long_as_the_run(longest: int) -> None:
    assert longest <= trial_length(longest, 4096) <= max(128, longest * 1.25)


@pytest.mark.long
@pytest.mark.parametrize("kind", [*custom.KINDS, "llama"])
def test_custom_code_gives_its_own_numbers_and_texts(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    whole = (
        tiny_llama(custom.WindowedLlamaForCausalLM)
        if kind == "llama"
        else custom.CustomForCausalLM(custom.CustomConfig(kind=kind, **tokens))
    )
    model = HFModel(str(save(tmp_path / kind, whole)), trust_remote_code=True, batch_size=4)
    model.model.generation_config.eos_token_id = None
    model.tokenizer.eos_token = None
    with caplog.at_level(logging.WARNING):
        outputs = dict(model.loglikelihood(REQUESTS))
    for index, request in enumerate(REQUESTS):
        assert outputs[index].loglikelihood == pytest.approx(plain(model, request), abs=1e-4)
    assert ("prefixes are not shared" in caplog.text) is (kind == "nocache")
    completions = dict(model.generate([GenerationRequest.of(prompt, {"max_gen_toks": 8}) for prompt in PROMPTS]))
    assert [completions[index].text for index in range(len(PROMPTS))] == [greedy(model, each, 8) for each in PROMPTS]


def test_classes_named_like_llamas_are_not_known() -> None:
    assert is_known(tiny_llama())
    assert not is_known(tiny_llama(custom.WindowedLlamaForCausalLM))


def test_a_verdict_is_kept_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "neo", transformers.AutoModelForCausalLM.from_config(gpt_neo()))
    expected = dict(HFModel(str(folder)).loglikelihood(REQUESTS))
    lengths: list[int] = []

    def counted(trial: Any, head: Any, length: int) -> Any:
        lengths.append(length)
        return trial(head, length)

    monkeypatch.setattr("multiform.models.torch.trial.scoring_trial", partial(counted, scoring_trial))
    again = HFModel(str(folder))
    assert dict(again.loglikelihood(REQUESTS)) == expected
    assert not lengths
    other = HFModel(str(folder), dtype="float64")
    list(other.loglikelihood(REQUESTS))
    assert lengths == [128]


@pytest.fixture
def known(tmp_path: Path) -> Planner:
    """The planner of a model whose class the zoo has verified for the installed version of transformers."""
    version = next(reversed(json.loads(structure.VERIFIED.read_text())))
    if version != transformers.__version__:
        pytest.skip(f"the zoo was run with transformers {version}, not {transformers.__version__}")
    return Planner(CausalLM(scaled(tiny_llama())), max_length=160)


def tokens_of(planner: Planner, run: Callable[[], Any]) -> int:
    """The tokens that a model computes in a trial."""
    counts: list[int] = []
    embeddings = planner.lm.model.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda _, inputs: counts.append(inputs[0].numel()))
    run()
    hook.remove()
    return sum(counts)


def test_a_verified_class_gets_a_brief_trial(known: Planner) -> None:
    assert tokens_of(known, lambda: known.scoring(90)) < 100
    assert known.mode is ScoringWay.TREE_ATTENTION
    assert tokens_of(known, lambda: known.decoding(90)) < 60
    assert known.decoding(90) is Decoding.SHARED
    assert set(known.records.verdicts) == {"scoring of 128", "short decoding"}


def test_another_version_of_transformers_gets_the_whole_trial(known: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiform.models.torch.structure.transformers.__version__", "5.0.0")
    known = Planner(known.lm, max_length=160)
    assert 400 < tokens_of(known, lambda: known.scoring(90)) < 700
    assert known.scoring(90) is ScoringWay.TREE_ATTENTION


def test_other_attention_and_other_layers_get_the_whole_trial(known: Planner) -> None:
    model = known.lm.model
    assert verified_ways(model)
    model.config._attn_implementation = "eager"
    assert not verified_ways(model)
    model.config._attn_implementation = "sdpa"
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).get_base_model()
    assert is_known(adapted)
    assert not verified_ways(adapted)


def test_a_brief_trial_that_fails_is_followed_by_the_whole_one(known: Planner) -> None:
    # An object of transformers' own class whose layer was changed: its outputs depend on the size of the pass.
    part = known.lm.model.model.layers[1].mlp
    forward = part.forward
    part.forward = lambda states: forward(states) * states.shape[1] ** 0.5
    assert verified_ways(known.lm.model)
    assert tokens_of(known, lambda: known.scoring(90)) > 400
    assert known.mode is None
    assert known.decoding(90) is not Decoding.SHARED


def test_records_are_read_by_the_same_model_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIFORM_STORE", str(tmp_path / "answers.db"))
    assert TrialRecords("a").verdict("plan of 128", lambda: "MASKED", otherwise="none") == "MASKED"
    assert TrialRecords("a").verdict("plan of 128", lambda: "none", otherwise="none") == "MASKED"
    assert TrialRecords("b").verdict("plan of 128", lambda: "none", otherwise="none") == "none"
    assert TrialRecords("a").verdict("plan of 256", lambda: "none", otherwise="none") == "none"


def test_a_trial_that_does_not_fit_into_memory_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIFORM_STORE", str(tmp_path / "answers.db"))

    def fail() -> str:
        raise torch.OutOfMemoryError("out of memory")

    assert TrialRecords("a").verdict("plan of 128", fail, otherwise="none") == "none"
    assert TrialRecords("a").verdict("plan of 128", lambda: "MASKED", otherwise="none") == "MASKED"


def gpt_neo() -> transformers.GPTNeoConfig:
    return transformers.GPTNeoConfig(
        vocab_size=400,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        intermediate_size=48,
        attention_types=[[["global", "local"], 1]],
        window_size=16,
        max_position_embeddings=160,
        bos_token_id=0,
        eos_token_id=1,
    )


@pytest.mark.long
@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
@pytest.mark.parametrize("budget", [None, 0])
def test_positions_scaled_by_the_longest_row_are_those_of_each_row_alone(
    rope: str, budget: int | None, tmp_path: Path
) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "dynamic": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}},
        "longrope": {
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": [1.0] * 4,
                "long_factor": [4.0] * 4,
                "original_max_position_embeddings": 40,
            }
        },
    }
    folder = save(tmp_path / rope, tiny_llama(**kinds[rope], max_position_embeddings=40))
    model = HFModel(str(folder), max_length=160, batch_size=8, prefix_budget=budget)
    outputs = dict(model.loglikelihood(REQUESTS))
    short = LoglikelihoodRequest("The dog", " sat on the mat")
    together = dict(model.loglikelihood([*REQUESTS, short]))
    assert model.planner.scoring(100) is ScoringWay.ALONE
    for index, request in enumerate([*REQUESTS, short]):
        expected = plain(HFModel(str(folder), max_length=160), request)
        assert together[index].loglikelihood == pytest.approx(expected, abs=1e-4)
    assert {index: outputs[index].loglikelihood for index in outputs} == {
        index: pytest.approx(together[index].loglikelihood, abs=1e-4) for index in outputs
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("window", "shortest", "longest"), [(32, 20, 110), (64, 20, 120), (100, 100, 120), (150, 100, 300)]
)
def test_a_model_that_selects_tokens_gives_each_sequence_its_own_numbers(
    window: int, shortest: int, longest: int
) -> None:
    # Where two tokens score almost alike, rounding decides which one is attended to: the sequences of a trial may pass.
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.DogeConfig(vocab_size=400, **sizes, intermediate_size=48, keep_window_size=window)
    model = scaled(transformers.AutoModelForCausalLM.from_config(config))
    for name, parameter in model.named_parameters():
        if name.endswith(".A"):
            torch.nn.init.normal_(parameter)
    numbers = random.Random(5)
    pairs = []
    for _ in range(30):
        context = numbers.choices(range(3, 400), k=numbers.randrange(shortest, longest))
        ends = [numbers.choices(range(3, 400), k=4) for _ in range(3)]
        pairs += [Pair(array("i", [*context, *end]), len(context)) for end in ends]
    planner = Planner(CausalLM(model), max_length=512)
    outputs = dict(engine_of(planner).score(pairs))
    expected = [loglikelihood_alone(planner.lm, pair) for pair in pairs]
    assert [outputs[index].loglikelihood for index in range(len(pairs))] == pytest.approx(expected, abs=1e-4)
    assert planner.decoding(longest) is Decoding.ALONE
    # Within its window it selects nothing.
    assert planner.scoring(window // 2 if window > 128 else window) is (
        ScoringWay.AT_ONCE if window > 128 else ScoringWay.ALONE
    )


def test_a_pass_has_no_more_tokens_than_a_model_has_positions() -> None:
    # BigBird keeps a buffer of that size, and a pass of several branches would go beyond it.
    planner = Planner(CausalLM(zoo_model("big_bird")), max_length=160)
    numbers = random.Random(5)
    pairs = [Pair(array("i", numbers.choices(range(3, 400), k=100)), 96) for _ in range(8)]
    outputs = dict(engine_of(planner).score(pairs))
    assert planner.scoring(99).is_planned
    expected = [loglikelihood_alone(planner.lm, pair) for pair in pairs]
    assert [outputs[index].loglikelihood for index in range(len(pairs))] == pytest.approx(expected, abs=1e-4)


def test_a_selection_is_one_of_tokens_if_it_grows_with_the_sequence() -> None:
    router = torch.nn.Linear(8, 4)

    def experts(states: torch.Tensor) -> torch.Tensor:
        order = torch.argsort(states.argmax(-1))  # as experts get their tokens
        return torch.topk(router(states[order]), 2).values

    def tokens(states: torch.Tensor) -> torch.Tensor:
        return states.T.topk(min(3, len(states)), dim=-1).values

    sequences = [torch.randn(length, 8) for length in (5, 9)]
    assert not judge_each(experts, sequences)[1]
    assert judge_each(tokens, sequences)[1]


@pytest.mark.parametrize(
    ("name", "selects"),
    [
        *(("doge", True), ("deepseek_v32", True), ("mixtral", False), ("llama", False)),
        # These have `generate` in the class of their layers' parent, and it selects beams.
        *(("mllama", False), (f"{CUSTOM}alibi", False)),
    ],
)
def test_attention_that_selects_tokens_is_known_by_its_code(name: str, selects: bool) -> None:
    assert selects_tokens(zoo_model(name)) is selects


def test_a_small_run_is_not_worth_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "WORTH_TRIAL", 24)
    planner = Planner(CausalLM(zoo_model("mamba")), max_length=160)
    numbers = random.Random(5)
    pairs = [Pair(array("i", numbers.choices(range(3, 400), k=101)), 96) for _ in range(12)]
    expected = [loglikelihood_alone(planner.lm, pair) for pair in pairs]
    for run in range(4):  # 1,200 tokens each; a trial of 128 tokens is worth 3,072
        outputs = dict(engine_of(planner).score(pairs))
        assert [outputs[index].loglikelihood for index in range(len(pairs))] == pytest.approx(expected, abs=1e-4)
        assert bool(planner.records.verdicts) is (run >= 2)
    assert engine_of(planner).scoring_cost(pairs)


def test_ways_that_are_wrong_at_every_length_get_a_short_trial_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, ScoringWay]] = []
    allows = ScoringTrial.allows

    def noting(trial: ScoringTrial, way: ScoringWay, pass_size: int) -> bool:
        tried.append((max(len(pair.tokens) for pair in trial.pairs), way))
        return allows(trial, way, pass_size)

    monkeypatch.setattr(ScoringTrial, "allows", noting)
    assert Planner(CausalLM(zoo_model("mamba")), max_length=160).scoring(150) is ScoringWay.STEPWISE
    assert [way for length, way in tried if length < 30] == [ScoringWay.AT_ONCE, ScoringWay.STEPWISE]
    assert [way for length, way in tried if length > 30] == [ScoringWay.STEPWISE]


def test_a_recurrent_model_decodes_with_its_own_cache(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny("mamba")), max_length=96)
    prompts = model.encoder.prompts(PROMPTS)
    list(model.generate([GenerationRequest.of(prompt, {"max_gen_toks": 6}) for prompt in PROMPTS]))
    assert model.planner.decoding(96) is Decoding.ALONE
    assert model.counters.prefill == sum(min(len(tokens), 90) for tokens in prompts.values())
