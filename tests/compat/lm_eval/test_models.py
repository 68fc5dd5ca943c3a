"""Models written for lm-eval answer in Multiform, and ours answer code that asks as lm-eval does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from multiform import ModelError, UsageError, evaluate
from multiform.compat.lm_eval.models import LM, TemplateLM
from multiform.compat.lm_eval.registry import get_model, register_model
from multiform.models import models
from multiform.models.dummy import DummyModel
from multiform.models.foreign import ForeignModel, as_model
from multiform.models.foreign import LMEvalInstance as Instance
from multiform.requests import GenerationRequest, LLOutput, LoglikelihoodRequest, RollingRequest

from .conftest import needs_lm_eval


class Fixed(LM):
    """Answers what it is made with."""

    def __init__(self, likelihood=-1.0, text="yes", **kwargs):
        super().__init__()
        self.likelihood, self.text, self.seen = likelihood, text, []

    def loglikelihood(self, requests):
        self.seen += requests
        return [(self.likelihood, False) for _ in requests]

    def loglikelihood_rolling(self, requests):
        return [self.likelihood for _ in requests]

    def generate_until(self, requests):
        for request in requests:
            request.args[1].pop("until")  # many models take their arguments apart
        return [self.text for _ in requests]


def test_an_lm_gets_instances_and_its_answers_come_back():
    model: Any = as_model(Fixed())
    assert list(model.loglikelihood([LoglikelihoodRequest("a", "b")])) == [(0, LLOutput(-1.0, False))]
    assert [output.loglikelihood for _, output in model.loglikelihood_rolling([RollingRequest("a")] * 2)] == [-1, -1]
    request = GenerationRequest.of("a", {"until": ["."]})
    assert [output.text for _, output in model.generate([request, request])] == ["yes", "yes"]
    assert request.gen_kwargs == {"until": ["."]}
    assert model.lm.seen[0].request_type == "loglikelihood"


def test_an_lm_that_gives_too_few_answers_is_an_error():
    class Lazy(Fixed):
        def loglikelihood(self, requests):
            return []

    with pytest.raises(ModelError, match=r"Lazy\.loglikelihood gave 0 outputs for 1 requests"):
        list(as_model(Lazy()).loglikelihood([LoglikelihoodRequest("a", "b")]))


def test_an_object_without_the_three_methods_is_refused():
    class Half:
        def loglikelihood(self, requests):
            return []

    with pytest.raises(UsageError, match="an object of Half has no loglikelihood_rolling and no generate_until"):
        as_model(Half())


def test_answers_of_unknown_origin_are_never_taken_for_each_other():
    assert as_model(Fixed()).identity != as_model(Fixed()).identity
    assert not ForeignModel(Fixed()).stored


def test_a_chat_template_of_the_model_is_applied(folder):
    class Chat(Fixed):
        tokenizer_name = "chat"

        def apply_chat_template(self, chat_history, add_generation_prompt=True):
            return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history) + "<answer>"

        def chat_template(self, chat_template=False):
            return "{{ messages }}"

    model = Chat()
    results = evaluate(
        model=model, tasks=["animals"], include_path=folder, limit=1, apply_chat_template=True, num_fewshot=1
    )
    assert model.seen[0].args[0].count("<user>") == 2
    assert model.seen[0].args[0].endswith("<answer>")
    assert results.provenance["chat_template"] == "{{ messages }}"


def test_results_say_what_the_model_says_about_itself(folder):
    class Told(Fixed):
        max_length = 12

        def get_model_info(self):
            return {"model_num_parameters": 7}

    told: Any = Told()
    told.tokenizer = SimpleNamespace(pad_token="<p>", pad_token_id=0, eos_token="<e>", eos_token_id=1, bos_token=None)
    results = evaluate(model=told, tasks=["animals"], include_path=folder, limit=1)
    assert results.run["model_num_parameters"] == 7
    said = {key: results.provenance[key] for key in ("tokenizer_pad_token", "tokenizer_bos_token", "max_length")}
    assert said == {"tokenizer_pad_token": ["<p>", "0"], "tokenizer_bos_token": [None, "None"], "max_length": 12}


def test_a_registered_class_is_a_model_of_multiform(monkeypatch, folder):
    monkeypatch.setattr(models, "_entries", dict(models._entries))
    register_model("fixed", "also-fixed")(Fixed)
    results = evaluate(model="also-fixed", model_args="text=honey", tasks=["spelled"], include_path=folder)
    assert results["spelled"]["exact_match,none"] == pytest.approx(1 / 6)
    assert get_model("fixed") is Fixed
    made: Any = get_model("fixed").create_from_arg_string("likelihood=-3", {"device": None})
    assert made.likelihood == -3


def test_a_template_lm_encodes_white_space_with_the_continuation():
    class Letters(TemplateLM):
        eot_token_id = 99

        def tok_encode(self, string, add_special_tokens=None, **kwargs):
            return [ord(letter) for letter in string]

        def _loglikelihood_tokens(self, requests, **kwargs):
            self.pairs = [(context, continuation) for _, context, continuation in requests]
            return [(0.0, False)] * len(requests)

        def loglikelihood_rolling(self, requests, disable_tqdm=False):
            return []

        def generate_until(self, requests, disable_tqdm=False):
            return []

    lm = Letters()
    lm.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in (("a ", "b"), ("", "b"), ("", "cb"))])
    assert lm.pairs == [([97], [32, 98]), ([99], [98]), ([99], [98])]


def test_our_models_answer_instances():
    dummy: Any = get_model("dummy")
    lm = dummy(seed=1)
    assert isinstance(as_model(lm), DummyModel)
    asked = [Instance("loglikelihood", {}, ("a", text), 0) for text in (" b", " c")]
    assert len({value for value, _ in lm.loglikelihood(asked)}) == 2
    assert lm.generate_until([Instance("generate_until", {}, ("a", {"until": ["."]}), 0)])


@pytest.fixture
def tiny():
    """A tiny random model and its tokenizer, loaded."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'multiform[hf]'")
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), start=1)}
    tokenizer = Tokenizer(models.BPE({"</s>": 0, **letters}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    config = transformers.LlamaConfig(
        vocab_size=257, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config)
    return model, transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def test_a_model_that_is_already_loaded_is_wrapped(tiny, folder):
    from multiform.compat.lm_eval.huggingface import HFLM

    model, tokenizer = tiny
    unset: dict[str, Any] = {"peft": None, "delta": None, "autogptq": False, "logits_cache": False}
    lm: Any = HFLM(
        pretrained=model, tokenizer=tokenizer, max_length=64, add_bos_token=False, dtype=model.dtype, **unset
    )
    assert lm.model is model
    assert lm.wrapped.encoder.add_bos_token is False
    assert lm.tok_decode(lm.tok_encode("hi")) == "hi"
    assert (lm.eot_token_id, lm.max_length) == (0, 64)
    results = evaluate(model=lm, tasks=["animals"], include_path=folder, limit=2)
    (first, *_), *_ = results.forms[0].samples[0].filtered
    sample: Any = results.forms[0].samples[0].instances[0].request
    ((direct, _),) = lm.loglikelihood([Instance("loglikelihood", {}, (sample.context, sample.continuation), 0)])
    assert direct == pytest.approx(first, abs=1e-5)


@needs_lm_eval
def test_an_hflm_has_the_attributes_of_lm_evals(tiny):
    from lm_eval.models import huggingface

    from multiform.compat.lm_eval.huggingface import HFLM

    model, tokenizer = tiny
    settings = {"pretrained": model, "tokenizer": tokenizer, "batch_size": 4, "add_bos_token": False}
    ours, theirs = HFLM(**settings), huggingface.HFLM(**settings)
    for name in ("max_gen_toks", "batch_size", "backend", "add_bos_token", "revision", "truncation", "vocab_size"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.pretrained is model
    for options in ({}, {"padding_side": "right"}, {"left_truncate_len": 3}):
        tokens, expected = (lm.tok_batch_encode(["hello", "hi"], **options) for lm in (ours, theirs))
        assert [part.tolist() for part in tokens] == [part.tolist() for part in expected]


def test_an_hflm_that_is_changed_inside_is_refused_and_one_that_answers_itself_is_asked(tiny):
    from multiform.compat.lm_eval.huggingface import HFLM

    class Inside(HFLM):
        def _model_call(self, inps, attn_mask=None, labels=None):
            return None

    class Own(HFLM):
        def loglikelihood(self, requests, disable_tqdm=False):
            return [(-9.0, False) for _ in requests]

    model, tokenizer = tiny
    with pytest.raises(UsageError, match="Inside overrides _model_call"):
        Inside(pretrained=model, tokenizer=tokenizer)
    own = as_model(Own(pretrained=model, tokenizer=tokenizer))
    assert isinstance(own, ForeignModel)
    assert list(own.loglikelihood([LoglikelihoodRequest("a", "b")])) == [(0, LLOutput(-9.0))]
    with pytest.raises(UsageError, match="backend=seq2seq: 'llama' is not an encoder-decoder model"):
        HFLM(pretrained=model, backend="seq2seq")
    with pytest.raises(UsageError, match="unknown model argument 'quantise'"):
        HFLM(pretrained=model, tokenizer=tokenizer, quantise=True)


def test_an_encoder_decoder_that_is_already_loaded_is_wrapped(tiny):
    import transformers

    from multiform.compat.lm_eval.huggingface import HFLM

    _, tokenizer = tiny
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    lm = HFLM(pretrained=transformers.T5ForConditionalGeneration(config), tokenizer=tokenizer, backend="seq2seq")
    ((loglikelihood, _),) = lm.loglikelihood([Instance("loglikelihood", {}, ("a cat", " is"), 0)])
    assert loglikelihood < 0


@needs_lm_eval
@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_the_real_lm_eval_runs_in_a_script_of_ours(folder):
    from lm_eval.models.dummy import DummyLM

    results = evaluate(model=DummyLM(), tasks=["animals", "spelled"], include_path=folder)
    assert results["spelled"]["exact_match,none"] == 0
    assert results["animals"]["sample_len"] == 6
