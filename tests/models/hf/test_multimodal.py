"""Models that read images and sounds, against their own processor and forward pass."""

from __future__ import annotations

import importlib
import importlib.util
import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import multiform
from multiform.errors import ModelError, UsageError
from multiform.forms.media import media_from
from multiform.models import models
from multiform.models.hf.model import HFModel
from multiform.models.hf.multimodal import HFMultimodalModel
from multiform.models.hf.multimodal_inputs import ImageOptions, prepare_image
from multiform.prompts.media import Media
from multiform.requests import GenerationRequest, LLOutput, LoglikelihoodRequest
from multiform.run.executors import LocalExecutor

pytestmark = pytest.mark.long

Image = pytest.importorskip("PIL.Image")

IMAGE_KINDS = ("llava", "idefics3", "gemma3")
#: Each is close enough for numbers that were computed in another order.
NEAR: dict[str, Any] = {"abs": 2e-5, "rel": 0}


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> Media:
    """Coloured noise; the same seed gives the same image."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return media_from(Image.fromarray(pixels), "image", Path)


def tone(frequency: float, *, seconds: float = 0.5, rate: int = 16000) -> Media:
    """A sine wave."""
    samples = np.sin(2 * np.pi * frequency * np.arange(int(seconds * rate)) / rate).astype(np.float32)
    return media_from({"array": samples, "sampling_rate": rate}, "audio", Path)


@pytest.fixture(scope="module")
def made(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., HFMultimodalModel]:
    """Loads a tiny random model of a kind, with arguments; the same arguments give the same one."""
    spec = importlib.util.spec_from_file_location("multimodal_models", Path(__file__).with_name("multimodal_models.py"))
    assert spec
    assert spec.loader
    builders = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builders)
    folders: dict[str, Path] = {}
    loaded: dict[str, HFMultimodalModel] = {}

    def make(kind: str, **arguments: Any) -> HFMultimodalModel:
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp("multimodal") / f"tiny-{kind}"
            tokenizer = transformers.AutoTokenizer.from_pretrained(tiny("llama", bos=True))
            builders.build(kind, tokenizer, folders[kind])
        key = f"{kind} {arguments}"
        if key not in loaded:
            loaded[key] = HFMultimodalModel(str(folders[kind]), **arguments)
        return loaded[key]

    return make


def scores(model: HFMultimodalModel, requests: Sequence[LoglikelihoodRequest]) -> list[LLOutput]:
    outputs = dict(model.loglikelihood(requests))
    return [outputs[index] for index in range(len(requests))]


def texts(model: HFMultimodalModel, requests: Sequence[GenerationRequest]) -> list[str]:
    outputs = dict(model.generate(requests))
    return [outputs[index].text for index in range(len(requests))]


def direct(model: HFMultimodalModel, request: LoglikelihoodRequest) -> float:
    """The log-likelihood by the processor and the model alone, as their documentation calls them."""
    text = request.context + request.continuation
    for kind, token in model.inputs.placeholders.items():
        text = text.replace(f"<{kind}>", token)
    images = [one.image() for one in request.media if one.kind == "image"]
    sounds = [one.waveform().samples for one in request.media if one.kind == "audio"]
    given: dict[str, Any] = {"images": [images]} if images else {}
    given |= {"audio": sounds, "sampling_rate": 16000} if sounds else {}
    inputs = model.processor(text=[text], return_tensors="pt", **given)
    with torch.inference_mode():
        logprobs = model.model(**inputs).logits[0].double().log_softmax(-1)
    ids = inputs["input_ids"][0].tolist()
    scored = len(model.tokenizer(request.continuation, add_special_tokens=False)["input_ids"])
    return sum(float(logprobs[place - 1, ids[place]]) for place in range(len(ids) - scored, len(ids)))


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_another_image_gives_another_likelihood_and_the_same_image_the_same(made, kind):
    model = made(kind)
    ask = [LoglikelihoodRequest("Look: <image> It is", " the dog", (picture(seed),)) for seed in (1, 2, 1)]
    first, second, again = scores(model, ask)
    assert first.loglikelihood != pytest.approx(second.loglikelihood, abs=1e-3)
    assert first == again
    assert ask[0] == ask[2] != ask[1]


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_likelihoods_are_those_of_the_processor_and_the_model_itself(made, kind):
    model = made(kind)
    one, two = picture(1), picture(2, (20, 90))
    ask = [
        LoglikelihoodRequest("Look: <image> It is", " the dog and the cat", (one,)),
        LoglikelihoodRequest("Look: <image> It is", " yes", (one,)),
        LoglikelihoodRequest("Look: <image> It is", " no", (one,)),
        LoglikelihoodRequest("<image><image>What is the capital of France?", " Paris", (two, one)),
        LoglikelihoodRequest("Is it <image> or <image>, or <image>?", " a good dog", (two, one, two)),
    ]
    wanted = [direct(model, request) for request in ask]
    assert [one.loglikelihood for one in scores(model, ask)] == pytest.approx(wanted, **NEAR)


def test_likelihoods_of_sounds_are_those_of_the_processor_and_the_model_itself(made):
    model = made("qwen2_audio")
    low, high = tone(220), tone(1760, seconds=0.3)
    ask = [
        LoglikelihoodRequest("Listen: <audio> It is", " the dog", (low,)),
        LoglikelihoodRequest("Listen: <audio> It is", " the dog", (high,)),
        LoglikelihoodRequest("<audio><audio>Which one is it?", " no", (low, high)),
    ]
    found = [one.loglikelihood for one in scores(model, ask)]
    assert found == pytest.approx([direct(model, request) for request in ask], **NEAR)
    assert found[0] != pytest.approx(found[1], abs=1e-3)


@pytest.mark.parametrize("kind", [*IMAGE_KINDS, "qwen2_audio"])
def test_text_without_media_is_scored_and_continued_as_well(made, kind):
    model = made(kind)
    request = LoglikelihoodRequest("What is it? Answer:", " the dog")
    assert scores(model, [request])[0].loglikelihood == pytest.approx(direct(model, request), **NEAR)
    prompt = model.tokenizer("What is it? Answer:", return_tensors="pt")
    own = model.model.generate(**prompt, max_new_tokens=6, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert texts(model, [GenerationRequest.of("What is it? Answer:", {"max_gen_toks": 6})]) == [
        model.tokenizer.decode(own, skip_special_tokens=True)
    ]


def test_the_model_gets_the_pixels_that_its_processor_makes(made, monkeypatch):
    model = made("llava")
    seen: list[dict[str, Any]] = []
    forward = model.model.forward

    def watched(**inputs: Any) -> Any:
        seen.append(inputs)
        return forward(**inputs)

    monkeypatch.setattr(model.model, "forward", watched)
    one, two = picture(1), picture(2)
    list(model.loglikelihood([LoglikelihoodRequest("A <image> b <image>", " c", (one, two))]))
    wanted = model.processor(text="<image><image>", images=[one.image(), two.image()], return_tensors="pt")
    assert torch.equal(seen[0]["pixel_values"], wanted["pixel_values"])


def test_the_labels_of_a_question_share_one_pass(made, monkeypatch):
    model = made("llava")
    passes: list[int] = []
    forward = model.model.forward

    def counted(**inputs: Any) -> Any:
        passes.append(1)
        return forward(**inputs)

    monkeypatch.setattr(model.model, "forward", counted)
    scores(model, [LoglikelihoodRequest("<image> Which?", label, (picture(1),)) for label in (" A", " d", " c")])
    assert len(passes) == 1


@pytest.mark.parametrize("kind", [*IMAGE_KINDS, "qwen2_audio"])
def test_a_batch_gives_the_outputs_of_its_rows_alone(made, kind):
    one, two = (tone(220), tone(880, seconds=0.2)) if kind == "qwen2_audio" else (picture(1), picture(2, (90, 20)))
    mark = "<audio>" if kind == "qwen2_audio" else "<image>"
    prompts = [
        (f"{mark} What?", (one,)),
        (f"Now a much longer question, {mark} and {mark}: yes or no?", (two, one)),
        (f"So {mark}", (two,)),
        ("No picture at all.", ()),
    ]
    ask = [LoglikelihoodRequest(text, end, media) for text, media in prompts for end in (" dog", " the cat sat")]
    write = [GenerationRequest.of(text, {"max_gen_toks": 5}, 0, media) for text, media in prompts]
    model = made(kind)
    alone = [scores(model, [request])[0].loglikelihood for request in ask]
    assert [one.loglikelihood for one in scores(model, ask)] == pytest.approx(alone, **NEAR)
    assert texts(model, write) == [texts(model, [request])[0] for request in write]


@pytest.mark.parametrize("kind", IMAGE_KINDS)
def test_greedy_text_is_what_the_model_generates_itself(made, kind):
    model = made(kind)
    media = (picture(3),)
    prompt = f"Look: {model.inputs.placeholders['image']} It is"
    inputs = model.processor(text=[prompt], images=[[media[0].image()]], return_tensors="pt")
    own = model.model.generate(**inputs, max_new_tokens=8, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    request = GenerationRequest.of("Look: <image> It is", {"max_gen_toks": 8, "until": []}, 0, media)
    assert texts(model, [request]) == [model.tokenizer.decode(own, skip_special_tokens=True)]


def test_text_ends_at_its_own_stop_string_and_limit(made):
    model = made("llava")
    media = (picture(3),)
    whole = texts(model, [GenerationRequest.of("<image> It is", {"max_gen_toks": 8}, 0, media)])[0]
    stop = next(character for character in whole[1:] if character.isascii())
    ask = [
        GenerationRequest.of("<image> It is", {"max_gen_toks": 8, "until": [stop]}, 0, media),
        GenerationRequest.of("<image> It is", {"max_gen_toks": 1}, 0, media),
    ]
    outputs = dict(model.generate(ask))
    assert outputs[0].text == whole[: whole.find(stop)]
    assert not outputs[0].truncated
    assert len(outputs[1].text) < len(whole)
    assert outputs[1].truncated


def test_sampled_text_depends_on_the_request_alone(made):
    model = made("llava")
    options = {"max_gen_toks": 6, "temperature": 1.0}
    ask = [GenerationRequest.of("<image> It is", options, sample, (picture(3),)) for sample in range(3)]
    together = texts(model, ask)
    assert together == [texts(model, [request])[0] for request in ask]
    assert len(set(together)) == 3


def test_images_beyond_the_limit_are_left_out_with_their_marks(made):
    one, two = picture(1), picture(2)
    both = LoglikelihoodRequest("<image> and <image> it is", " the dog", (one, two))
    first = LoglikelihoodRequest("<image> and  it is", " the dog", (one,))
    assert scores(made("llava", max_images=1), [both]) == scores(made("llava"), [first])
    none = LoglikelihoodRequest(" and  it is", " the dog")
    assert scores(made("llava", max_images=0), [both]) == scores(made("llava"), [none])


@pytest.mark.parametrize(("kind", "token"), [("llava", "<image>"), ("gemma3", "<start_of_image>")])
def test_a_chat_has_the_models_own_token_where_an_image_part_is(made, kind, token):
    model = made(kind)
    parts = [{"type": "text", "text": "Is "}, {"type": "image"}, {"type": "text", "text": " a dog?"}]
    chat = model.apply_chat_template([{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}])
    assert chat == f"[system]Be brief.\n[user]Is {token} a dog?\n[assistant]"
    output = scores(model, [LoglikelihoodRequest(chat, " yes", (picture(1),))])
    plain = chat.replace(token, "<image>")
    assert output == scores(model, [LoglikelihoodRequest(plain, " yes", (picture(1),))])


def test_a_chat_can_have_its_images_first_and_only_some_of_them(made):
    parts = [{"type": "text", "text": "Is "}, {"type": "image"}, {"type": "text", "text": " it?"}, {"type": "image"}]
    model = made("llava", interleave=False, max_images=1)
    assert model.apply_chat_template([{"role": "user", "content": parts}]) == "[user]<image>Is  it?\n[assistant]"


def test_a_prefilled_completion_is_continued(made):
    parts = [{"type": "image"}, {"type": "text", "text": "What?"}]
    chat = [{"role": "user", "content": parts}, {"role": "assistant", "content": [{"type": "text", "text": "It is"}]}]
    text = made("llava").apply_chat_template(chat, add_generation_prompt=False)
    assert text == "[user]<image>What?\n[assistant]It is"


def test_the_models_own_template_says_what_stands_for_a_sound(made):
    model = made("qwen2_audio")
    assert model.inputs.placeholders == {"audio": "<|audio_bos|><|AUDIO|><|audio_eos|>"}
    chat = model.apply_chat_template([{"role": "user", "content": [{"type": "audio"}, {"type": "text", "text": "?"}]}])
    assert "Audio 1: <|audio_bos|><|AUDIO|><|audio_eos|>\n?" in chat
    assert scores(model, [LoglikelihoodRequest(chat, " yes", (tone(440),))])[0].loglikelihood < 0


def test_a_first_token_that_the_chat_template_wrote_is_not_added_again(made):
    model = made("llava")
    media = (picture(1),)
    with_token = LoglikelihoodRequest("<s>Look: <image>", " dog", media)
    assert scores(model, [with_token]) == scores(model, [LoglikelihoodRequest("Look: <image>", " dog", media)])


def test_a_sound_is_brought_to_the_rate_of_the_model(made):
    model = made("qwen2_audio")
    fast, slow = tone(220), tone(220, rate=8000)
    first, second, other = scores(
        model, [LoglikelihoodRequest("<audio> It is", " dog", (one,)) for one in (fast, slow, tone(1760))]
    )
    assert first.loglikelihood == pytest.approx(second.loglikelihood, abs=0.5)
    assert abs(first.loglikelihood - second.loglikelihood) < abs(first.loglikelihood - other.loglikelihood)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (40, 30)),
        ({"image_max_side": 20}, (20, 15)),
        ({"image_width": 10}, (10, 7)),
        ({"image_height": 15}, (20, 15)),
        ({"image_width": 20, "image_height": 6}, (8, 6)),
        ({"image_max_side": 100}, (40, 30)),
    ],
)
def test_larger_images_are_made_smaller(options, size):
    assert prepare_image(Image.new("RGB", (40, 30)), ImageOptions(**options)).size == size


def test_settings_that_change_responses_change_the_identity(made):
    names = {made("llava", **options).identity for options in ({}, {"max_images": 1}, {"image_max_side": 20})}
    assert len(names) == 3


def test_images_that_are_not_rgb_are_read(made):
    grey = media_from(Image.new("L", (30, 30), 90), "image", Path)
    clear = media_from(Image.new("RGBA", (30, 30), (10, 20, 30, 40)), "image", Path)
    for model in (made("llava"), made("llava", convert_img_format=True)):
        for one in (grey, clear):
            assert scores(model, [LoglikelihoodRequest("<image> is", " dog", (one,))])[0].loglikelihood < 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_image": 2}, "did you mean 'max_images'"),
        ({"image_max_side": 9, "image_width": 9}, "image_max_side does not go with"),
        ({"pretrained": ""}, "needs the argument 'pretrained'"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        HFMultimodalModel(**{"pretrained": "x", **arguments})


def test_a_text_model_is_no_multimodal_model(tiny):
    with pytest.raises(ModelError, match=r"'llama' is not an image-text or audio-text model.*--model hf"):
        HFMultimodalModel(str(tiny("llama")))


def test_a_prompt_that_is_too_long_for_its_images_is_refused(made):
    model = made("llava", max_length=12)
    with pytest.raises(ModelError, match=r"tokens with its images.*the model reads 12.*image_max_side"):
        scores(model, [LoglikelihoodRequest("<image> Question: what is the capital of France?", " dog", (picture(1),))])
    with pytest.raises(ModelError, match="tokens with its images"):
        texts(model, [GenerationRequest.of("<image> Question: what?", {"max_gen_toks": 8}, 0, (picture(1),))])


def test_a_text_model_that_gets_an_image_says_which_model_to_use(llama: HFModel):
    request = LoglikelihoodRequest("<image> It is", " dog", (picture(1),))
    with pytest.raises(ModelError, match=r"reads text; the task's prompts have image; use --model hf-multimodal"):
        list(LocalExecutor(llama).run([[request]]))


def test_a_text_model_that_gets_an_image_in_a_chat_says_so_as_well(llama: HFModel, monkeypatch):
    monkeypatch.setattr(llama.tokenizer, "chat_template", "{{ messages[0].content }}")
    with pytest.raises(ModelError, match="use --model hf-multimodal"):
        llama.apply_chat_template([{"role": "user", "content": [{"type": "image"}]}])


def test_a_model_without_ears_refuses_sounds(made):
    with pytest.raises(ModelError, match="reads text, image; the task's prompts have audio"):
        scores(made("llava"), [LoglikelihoodRequest("<audio> It is", " dog", (tone(220),))])


def test_the_model_is_registered():
    assert models.get("hf-multimodal").load() is HFMultimodalModel


def png(media: Media) -> bytes:
    file = io.BytesIO()
    media.image().save(file, "PNG")
    return file.getvalue()


def test_a_task_with_images_runs_from_rows_to_scores(made, tmp_path):
    rows = [{"q": "Is <image> like <image>?", "p": [{"bytes": png(picture(n)), "path": None}] * 2} for n in range(3)]
    task = multiform.TaskConfig(
        task="pairs",
        custom_dataset=lambda **kwargs: {"test": rows},
        test_split="test",
        output_type="multiple_choice",
        doc_to_text="q",
        doc_to_choice=["no", "yes"],
        doc_to_target=0,
        doc_to_image="p",
    )
    results = multiform.evaluate(model=made("idefics3"), tasks=[task], use_cache=False)
    assert results["pairs"]["acc,none"] in (0, 1 / 3, 2 / 3, 1)


def test_images_of_the_mirror_reach_the_model_with_and_without_a_chat(made, mirror):
    folder = mirror / "mmmu_pro_sample"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    config = {
        "task": "mmmu_pro_sample",
        "dataset_path": str(folder),
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}\n{{options}}\nAnswer:",
        "doc_to_choice": ["A", "B", "C", "D"],
        "doc_to_target": "{{'ABCD'.find(answer) if answer in 'ABCD' else 0}}",
        "doc_to_image": [f"image_{number}" for number in range(1, 8)],
    }
    model = made("llava", max_length=2048)
    for chat in (False, True):
        task = multiform.Task.from_config(config)
        result = multiform.evaluate(
            model=model, tasks=[task], samples={"mmmu_pro_sample": [3, 4, 8]}, apply_chat_template=chat, use_cache=False
        )
        requests: list[Any] = [sample.instances[0].request for sample in result.forms[0].samples]
        assert [len(request.media) for request in requests] == [1, 5, 1]
        sample: Any
        for sample in result.forms[0].samples:
            wanted = [direct(model, instance.request) for instance in sample.instances]
            assert [output.loglikelihood for output in sample.outputs] == pytest.approx(wanted, **NEAR)


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["llava", "idefics3"])
def test_lm_evals_multimodal_model_writes_the_same(made, mirror, kind):
    folder = mirror / "mmmu_pro_sample" / "images"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    pytest.importorskip("lm_eval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vlms, instance = (importlib.import_module(f"lm_eval.{name}") for name in ("models.hf_vlms", "api.instance"))
        model = made(kind)
        theirs = vlms.HFMultimodalLM(str(model.source.pretrained), device="cpu", dtype="float32", batch_size=2)
        options = {"max_gen_toks": 8, "until": ["\n\n"], "do_sample": False}
        asked = [
            ("Look: <image> what is it?", ["ai2d_00000053.png"]),
            ("<image> and <image>: a dog?", ["test_Music_251_1.png", "ai2d_00000443.png"]),
            ("<image>Which?", ["ai2d_00000443.png"]),
        ]
        given = [
            (text, dict(options), {"visual": [Image.open(folder / name) for name in names]}) for text, names in asked
        ]
        instances = [instance.Instance("generate_until", {}, one, index) for index, one in enumerate(given)]
        wanted = theirs.generate_until(instances, disable_tqdm=True)
    requests = [
        GenerationRequest.of(text, options, 0, tuple(media_from(folder / name, "image", Path) for name in names))
        for text, names in asked
    ]
    assert texts(model, requests) == wanted
