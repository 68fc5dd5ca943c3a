"""Images and sounds from documents to requests, and what files and the command line say of them."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import pickle
import shutil
import wave
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest

from multiform import ConfigError, DataError, Task, evaluate
from multiform.cli.main import main
from multiform.forms import GenerateTask
from multiform.forms.media import media_from
from multiform.prompts.media import Media, binary_summary, decode_wav, encode_wav, waveform_from_array
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest, request_key
from multiform.results import sample_lines
from multiform.results.export import json_line

Image = pytest.importorskip("PIL.Image")


def picture(colour: str = "red", size: tuple[int, int] = (4, 3)) -> Any:
    return Image.new("RGB", size, colour)


def file_of(image: Any, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def wav(samples: np.ndarray, rate: int = 8000, width: int = 2, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(samples.tobytes())
    return file.getvalue()


def tone(frequency: float = 440, rate: int = 8000) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(rate // 4) / rate)


def task_of(rows: list[dict[str, Any]], **fields: Any) -> Task:
    base = {
        "task": "pictures",
        "custom_dataset": lambda **kwargs: {"test": rows},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "q",
        "doc_to_target": lambda doc: doc.get("x", "y"),
    }
    return Task.from_config({**base, **fields})


def first(task: Task, **options: Any) -> Any:
    return task.build_all_requests(limit=1, **options)[0].request


def images(request: Any) -> list[Any]:
    return [one.image() for one in request.media]


# Where images come from


def test_a_column_a_list_of_columns_and_a_function_give_images():
    doc = {"q": "?", "a": picture("red"), "b": picture("blue"), "none": None}
    for field, colours in (
        ("a", ["red"]),
        (["a", "none", "missing", "b"], ["red", "blue"]),
        (lambda doc: [doc["b"], None, doc["a"]], ["blue", "red"]),
        ("{{[b, a]}}", ["blue", "red"]),
    ):
        request = first(task_of([doc], doc_to_image=field))
        assert images(request) == [picture(colour) for colour in colours]


@pytest.mark.parametrize("kind", ["image", "path", "bytes", "mapping of bytes", "mapping of path", "data URL"])
def test_every_way_to_give_an_image_shows_the_same_pixels(kind, tmp_path, monkeypatch):
    data = file_of(picture("green"))
    (tmp_path / "green.png").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    value = {
        "image": picture("green"),
        "path": "green.png",
        "bytes": data,
        "mapping of bytes": {"bytes": data, "path": None},
        "mapping of path": {"bytes": None, "path": "green.png"},
        "data URL": f"data:image/png;base64,{base64.b64encode(data).decode()}",
    }[kind]
    request = first(task_of([{"q": "?", "a": value}], doc_to_image="a"))
    assert images(request) == [picture("green")]
    assert request.media[0].size == "4x3"
    assert request.context == "<image>\n?"


def test_paths_are_found_beside_the_data_and_beside_the_task(tmp_path):
    (tmp_path / "data" / "images").mkdir(parents=True)
    (tmp_path / "data" / "images" / "a.png").write_bytes(file_of(picture("red")))
    (tmp_path / "b.png").write_bytes(file_of(picture("blue")))
    row = {"q": "<image> or <image>?", "a": "images/a.png", "b": "b.png", "x": "red"}
    (tmp_path / "data" / "test.jsonl").write_text(json.dumps(row))
    (tmp_path / "task.yaml").write_text(
        "task: t\ndataset_path: data\ntest_split: test\ndoc_to_text: q\ndoc_to_target: x\ndoc_to_image: [a, b]\n"
    )
    results = evaluate(model="dummy", tasks=[str(tmp_path / "task.yaml")], use_cache=False)
    request = results.forms[0].samples[0].instances[0].request
    assert images(request) == [picture("red"), picture("blue")]


def test_paths_are_found_in_the_folder_of_a_mirror(tmp_path):
    folder = tmp_path / "org" / "set" / "default"
    folder.mkdir(parents=True)
    (folder / "a.png").write_bytes(file_of(picture("red")))
    (folder / "test.jsonl").write_text(json.dumps({"q": "?", "a": "a.png", "x": "red"}))
    fields = {"task": "t", "dataset_path": "org/set", "test_split": "test", "doc_to_text": "q", "doc_to_target": "x"}
    task = Task.from_config({**fields, "doc_to_image": "a"}, dataset_mirror=tmp_path)
    assert images(first(task)) == [picture("red")]


def test_an_image_is_turned_as_the_camera_says():
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    picture(size=(8, 4)).save(file, "JPEG", exif=exif)
    assert media_from(file.getvalue(), "image", Path).image().size == (4, 8)


def test_a_python_task_may_say_what_its_images_are():
    class Own(GenerateTask):
        def doc_to_image(self, doc, doc_to_image=None):
            return [picture(doc["colour"])]

    config = {
        "task": "own",
        "custom_dataset": lambda **kwargs: {"test": [{"q": "?", "colour": "blue", "x": "y"}]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "x",
    }
    assert images(first(Own(config))) == [picture("blue")]


def test_the_methods_give_what_the_document_has():
    task = task_of([], doc_to_image=["a", "b", "c"], doc_to_audio="s")
    doc = {"a": 1, "b": None, "s": "x.wav"}
    assert (task.doc_to_image(doc), task.doc_to_audio(doc), task.doc_to_image(doc, "a")) == ([1], "x.wav", 1)
    assert task_of([]).doc_to_image(doc) is None


# Where sounds come from


@pytest.mark.parametrize("kind", ["array", "integers", "path", "bytes", "mapping", "stereo"])
def test_every_way_to_give_a_sound_gives_its_samples(kind, tmp_path, monkeypatch):
    whole = (tone() * 32000).astype("<i2")
    (tmp_path / "a.wav").write_bytes(wav(whole))
    monkeypatch.chdir(tmp_path)
    value = {
        "array": {"array": whole / 32768, "sampling_rate": 8000},
        "integers": {"array": whole, "sampling_rate": 8000, "path": "gone.wav"},
        "path": "a.wav",
        "bytes": wav(whole),
        "mapping": {"bytes": wav(whole), "path": None},
        "stereo": wav(np.stack([whole, whole], axis=1), channels=2),
    }[kind]
    request = first(task_of([{"q": "?", "s": value}], doc_to_audio="s"))
    sound = request.media[0].waveform()
    assert (sound.rate, len(sound.samples), request.media[0].size) == (8000, 2000, "0.25 s at 8000 Hz")
    assert np.allclose(sound.samples, whole / 32768, atol=1e-6)
    assert request.context == "<audio>\n?"


def test_columns_of_images_and_sounds_of_a_dataset_are_read():
    whole = (tone() * 32000).astype("<i2")
    made = datasets.Dataset.from_list(
        [{"q": "?", "x": "y", "a": picture("red"), "s": {"bytes": wav(whole), "path": None}}]
    )
    rows = made.cast_column("s", datasets.Audio())
    for process in (None, lambda docs: docs.select([0])):
        fields = {"doc_to_image": "a", "doc_to_audio": "s", "process_docs": process}
        request = first(task_of([], custom_dataset=lambda **kwargs: {"test": rows}, **fields))
        assert [(one.kind, one.size) for one in request.media] == [("image", "4x3"), ("audio", "0.25 s at 8000 Hz")]


@pytest.mark.parametrize(("width", "tolerance"), [(1, 0.02), (2, 1e-4), (3, 1e-6), (4, 1e-6)])
def test_wav_files_of_every_width_are_read(width, tolerance):
    scaled = tone() * 0.9
    raw = (scaled * (2 ** (8 * width - 1) - 1)).astype("<i4")
    data = (raw + 128).astype(np.uint8) if width == 1 else raw.view(np.uint8).reshape(-1, 4)[:, :width]
    assert np.allclose(decode_wav(wav(data, width=width)).samples, scaled, atol=tolerance)


def test_a_sound_survives_being_written_and_brought_to_another_rate():
    sound = waveform_from_array(tone() * 0.5, 8000)
    assert np.allclose(decode_wav(encode_wav(sound)).samples, sound.samples, atol=1e-4)
    double = sound.resample(16000)
    assert (double.rate, len(double.samples)) == (16000, 4000)
    assert np.allclose(double.samples[100:-100:2], sound.samples[50:-50], atol=0.01)


# Marks


@pytest.mark.parametrize(
    ("text", "context", "colours"),
    [
        ("What?", "<image><image>\nWhat?", ["red", "blue"]),
        ("<image> or <image>?", "<image> or <image>?", ["red", "blue"]),
        ("<image 2> or <image 1>?", "<image> or <image>?", ["blue", "red"]),
        ("<image 1>, <image 1>?", "<image>, <image>?", ["red", "red"]),
        ("Only <image 2>", "Only <image>", ["blue"]),
    ],
)
def test_marks_say_which_image_belongs_where(text, context, colours):
    doc = {"q": text, "image_1": picture("red"), "image_2": picture("blue")}
    request = first(task_of([doc], doc_to_image=["image_1", "image_2"]))
    assert request.context == context
    assert images(request) == [picture(colour) for colour in colours]


def test_numbers_count_columns_even_where_one_is_empty():
    doc = {"q": "<image 3>", "a": picture("red"), "b": None, "c": picture("blue")}
    assert images(first(task_of([doc], doc_to_image=["a", "b", "c"]))) == [picture("blue")]


def test_images_and_sounds_are_in_the_order_of_their_marks():
    doc = {"q": "<audio> and <image>", "a": picture(), "s": {"array": tone(), "sampling_rate": 8000}}
    request = first(task_of([doc], doc_to_image="a", doc_to_audio="s"))
    assert [one.kind for one in request.media] == ["audio", "image"]


def test_a_mark_is_plain_text_in_a_task_without_images():
    request = first(task_of([{"q": "What does <image 1> mean in HTML?"}]))
    assert (request.context, request.media) == ("What does <image 1> mean in HTML?", ())


def test_a_document_without_an_image_is_asked_in_words():
    request = first(task_of([{"q": "?", "a": None}], doc_to_image="a"))
    assert (request.context, request.media) == ("?", ())


def test_examples_bring_their_own_images():
    rows = [{"q": f"<image> {colour}?", "a": picture(colour), "x": colour} for colour in ("red", "blue", "green")]
    task = task_of(
        rows,
        custom_dataset=lambda **kwargs: {"test": rows[2:], "train": rows[:2]},
        fewshot_split="train",
        fewshot_config={"sampler": "first_n"},
        num_fewshot=2,
        doc_to_image="a",
    )
    request = first(task)
    assert request.context == "<image> red? red\n\n<image> blue? blue\n\n<image> green?"
    assert images(request) == [picture(colour) for colour in ("red", "blue", "green")]


def test_a_document_is_not_its_own_example_by_its_sound_alone():
    rows = [{"s": {"array": tone(200 * n), "sampling_rate": 8000}, "q": "?"} for n in (1, 2, 3)]
    task = task_of(rows, doc_to_audio="s", num_fewshot=2, fewshot_split="test")
    for instance in task.build_all_requests():
        request: Any = instance.request
        assert len(set(request.media)) == 3


def test_a_replaced_example_is_the_same_in_every_run():
    def shots() -> list[Any]:
        rows = [{"q": "?", "a": picture(colour)} for colour in ("red", "blue", "green", "black", "white")]
        task = task_of(
            [],
            custom_dataset=lambda **kwargs: {"test": rows, "train": list(rows)},
            fewshot_split="train",
            num_fewshot=3,
            doc_to_image="a",
        )
        requests: list[Any] = [instance.request for instance in task.build_all_requests()]
        return [request.media for request in requests]

    assert shots() == shots()


# Requests


def test_choices_share_the_image_and_the_unconditional_ones_have_none():
    task = task_of(
        [{"q": "?", "a": picture()}],
        output_type="multiple_choice",
        doc_to_choice=["no", "yes"],
        doc_to_target=0,
        doc_to_image="a",
        metric_list=[{"metric": "acc_mutual_info"}],
    )
    requests: list[Any] = [instance.request for instance in task.build_all_requests()]
    assert [len(request.media) for request in requests] == [1, 1, 0, 0]


def test_a_format_shows_the_choices_and_the_image():
    task = task_of(
        [{"q": "Which <image 1>?", "o": ["a dog", "<image 2>"], "a": picture("red"), "b": picture("blue")}],
        formats="mcqa",
        doc_to_choice="o",
        doc_to_target=0,
        doc_to_image=["a", "b"],
    )
    request = first(task)
    assert request.context.count("<image>") == 2
    assert images(request) == [picture("red"), picture("blue")]


def test_requests_are_equal_when_text_and_content_are():
    same = [media_from(file_of(picture("red")), "image", Path) for _ in range(2)]
    other = media_from(file_of(picture("blue")), "image", Path)
    for ask in (lambda *m: LoglikelihoodRequest("c", "d", m), lambda *m: GenerationRequest.of("c", {}, 0, m)):
        assert ask(same[0]) == ask(same[1])
        assert len({ask(same[0]), ask(same[1]), ask(other), ask(), ask(other, same[0])}) == 4
        keys = {request_key(request) for request in (ask(same[0]), ask(same[1]), ask(other), ask())}
        assert len(keys) == 3


def test_images_with_different_palettes_are_different():
    first, second = (Image.new("P", (2, 2), 0) for _ in range(2))
    second.putpalette([9, 9, 9])
    assert media_from(first, "image", Path) != media_from(second, "image", Path)


def test_stored_answers_of_one_image_are_not_those_of_another(tmp_path):
    def run(colour: str) -> str:
        task = task_of([{"q": "?", "a": picture(colour), "x": "y"}], doc_to_image="a")
        results = evaluate(model="dummy", tasks=[task], use_cache=tmp_path / "answers.db")
        (output,) = results.forms[0].samples[0].outputs
        assert isinstance(output, Completion)
        return output.text

    colours = ["red", "blue", "green", "black", "white", "yellow"]
    answers = [run(colour) for colour in colours]
    assert len(set(answers)) > 1
    assert [run(colour) for colour in colours] == answers


def test_requests_travel_between_processes():
    request = first(task_of([{"q": "?", "a": picture("red")}], doc_to_image="a"))
    again = pickle.loads(pickle.dumps(request))
    assert again == request
    assert images(again) == images(request)


def test_images_of_few_shot_examples_stay_with_a_prompt_that_a_task_passes_on():
    class Passing(GenerateTask):
        def construct_requests(self, doc, ctx, **kwargs):
            assert type(ctx) is str
            return super().construct_requests(doc, ctx, **kwargs)

    rows = [
        {"q": "Is <image 2> red?", "a": picture("red"), "b": picture(colour), "x": "no"} for colour in ("blue", "green")
    ]
    config = {
        "task": "passing",
        "custom_dataset": lambda **kwargs: {"test": rows[:1], "train": rows[1:]},
        "test_split": "test",
        "training_split": "train",
        "num_fewshot": 1,
        "doc_to_text": "q",
        "doc_to_target": "x",
        "doc_to_image": ["a", "b"],
    }
    request = first(Passing(config))
    assert request.context == "Is <image> red? no\n\nIs <image> red?"
    assert images(request) == [picture("green"), picture("blue")]


def test_the_request_cache_is_not_used_for_images(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path))
    task = task_of([{"q": "?", "a": picture("red")}], doc_to_image="a")
    for _ in range(2):
        assert images(task.build_all_requests(cache_requests=True)[0].request)
    assert not list(tmp_path.iterdir())


# Chats


def test_a_chat_has_parts():
    seen: list[Any] = []

    def template(messages: Any, add_generation_prompt: bool = True) -> str:
        seen.extend(messages)
        return "chat"

    doc = {"q": "Is <image 1> red?", "a": picture("red")}
    task = task_of([doc], doc_to_image=["a"], gen_prefix="It is")
    request = first(task, apply_chat_template=True, chat_template=template, system_instruction="Look.")
    assert seen == [
        {"role": "system", "content": [{"type": "text", "text": "Look."}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Is "}, {"type": "image"}, {"type": "text", "text": " red?"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "It is"}]},
    ]
    assert (request.context, images(request)) == ("chat", [picture("red")])


def test_a_chat_without_media_has_texts():
    seen: list[Any] = []
    task = task_of([{"q": "?", "a": None}], doc_to_image="a")

    def chat_template(messages: list[Any], **options: Any) -> str:
        seen.extend(messages)
        return ""

    first(task, apply_chat_template=True, chat_template=chat_template)
    assert seen == [{"role": "user", "content": "?"}]


# Mistakes


@pytest.mark.parametrize(
    ("doc", "field", "message"),
    [
        ({"a": 5}, "a", r"doc 0: expected an image, got int 5; give an image of Pillow"),
        ({"a": {"x": 1}}, "a", "expected an image, got dict"),
        ({"a": b"no image"}, "a", "not an image that can be read"),
        ({"a": "gone.png"}, "a", "no file 'gone.png'; check the path; looked in"),
        ({"a": "http://host/a.png"}, "a", "on the network; download it"),
        ({"a": "data:image/png;base64,%%%"}, "a", "not valid base64"),
        ({"a": b"\x89PNG\r\n"}, "a", "not an image that can be read"),
        ({"pic": None}, "pik", "no column 'pik'; did you mean 'pic'"),
        ({"pic": None}, ["pik", "pok"], "none of the columns pik, pok is there; did you mean 'pic'"),
        ({"q": "<image> ?", "a": None}, "a", "the prompt has 1 mark for images and the document has 0"),
        ({"q": "<image> ?", "a": [picture(), picture()]}, "a", "has 1 mark for images and the document has 2"),
        ({"q": "<image 2> ?", "a": picture()}, "a", "the mark <image 2> and the document has no such image"),
        ({"q": "<image 1> <image>?", "a": picture()}, "a", "2 marks for images"),
        ({"a": picture()}, lambda doc: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_mistake_about_images_names_document_field_and_remedy(doc, field, message):
    task = task_of([{"q": "?", **doc}], doc_to_image=field)
    with pytest.raises(DataError, match=message) as error:
        first(task)
    assert "doc_to_image: doc 0" in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tone(), "an array needs its sampling rate"),
        ({"array": tone()}, "the audio has no 'sampling_rate'"),
        ({"array": [["a"]], "sampling_rate": 8000}, "not an array of samples"),
        ({"array": [], "sampling_rate": 8000}, "one row of finite samples"),
        ({"array": [0.1, float("nan")], "sampling_rate": 8000}, "finite samples"),
        ({"array": [5, 900], "sampling_rate": 8000}, "whole numbers of unknown width"),
        ({"array": tone(), "sampling_rate": 0}, "the sampling rate is 0"),
        (b"ID3 an mp3", "not a WAV file that can be read.*ffmpeg"),
        (wav(np.zeros(0, "<i2")), "no samples"),
        (7, "expected audio, got int 7"),
    ],
)
def test_a_mistake_about_sounds_names_document_field_and_remedy(value, message):
    with pytest.raises(DataError, match=message) as error:
        first(task_of([{"q": "?", "s": value}], doc_to_audio="s"))
    assert "doc_to_audio: doc 0" in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_file_that_ends_too_early_is_found_before_the_model_is_asked(kind):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 60, 3), dtype=np.uint8))
    data = file_of(noise, kind)
    with pytest.raises(DataError, match="not an image that can be read"):
        first(task_of([{"q": "?", "a": data[: len(data) // 2]}], doc_to_image="a"))


def test_marks_in_other_texts_of_a_prompt_are_refused():
    task = task_of([{"q": "?", "a": picture()}], doc_to_image="a", description="An <image> follows. ")
    with pytest.raises(DataError, match=r"2 marks <image> for 1 image; keep marks out of description"):
        first(task)


def test_perplexity_has_no_place_for_an_image():
    with pytest.raises(ConfigError, match="doc_to_image does not go with loglikelihood_rolling"):
        task_of([], output_type="loglikelihood_rolling", doc_to_image="a")


# What files and the command line say


def test_sample_files_name_media_by_kind_size_and_hash():
    sound = {"array": tone(), "sampling_rate": 8000}
    rows = [{"q": "?", "a": picture(), "b": {"bytes": file_of(picture("blue")), "path": None}, "s": sound, "x": "y"}]
    task = task_of(rows, doc_to_image=["a", "b"], doc_to_audio="s")
    lines = [json_line(line) for line in sample_lines(evaluate(model="dummy", tasks=[task], use_cache=False).forms[0])]
    line = json.loads(lines[0])
    visual, audio = (line["arguments"]["gen_args_0"]["arg_2"][kind] for kind in ("visual", "audio"))
    assert [(one["kind"], one["size"], len(one["sha256"])) for one in visual] == [("image", "4x3", 64)] * 2
    assert [(one["kind"], one["size"]) for one in audio] == [("audio", "0.25 s at 8000 Hz")]
    assert line["doc"]["a"]["size"] == "4x3"
    assert line["doc"]["b"]["bytes"]["kind"] == "bytes"
    assert line["doc"]["s"]["array"]["size"] == "2000"
    assert len(lines[0]) < 3000
    again = sample_lines(evaluate(model="dummy", tasks=[task], use_cache=False).forms[0])
    assert next(iter(again))["doc_hash"] == line["doc_hash"]


def test_a_data_url_is_named_as_well():
    line = json.loads(json_line({"doc": {"a": "data:image/png;base64," + "A" * 1000}}))
    assert line["doc"]["a"]["kind"] == "image"
    assert binary_summary(Media("image", "00", "1x1")) == {"kind": "image", "size": "1x1", "sha256": "00"}


def test_show_names_media(tmp_path, capsys):
    (tmp_path / "red.png").write_bytes(file_of(picture("red")))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "Is <image 1> red?", "a": "red.png", "x": "yes"}))
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: q\ndoc_to_target: x\ndoc_to_image: [a]\n"
    )
    assert main(["show", str(tmp_path / "t.yaml"), "--json"]) == 0
    request = json.loads(capsys.readouterr().out)["requests"][0]
    assert request["context"] == "Is <image> red?"
    assert [(one["kind"], one["size"]) for one in request["media"]] == [("image", "4x3")]
    assert main(["show", str(tmp_path / "t.yaml")]) == 0
    assert "--- image 4x3 sha256 " in capsys.readouterr().out


def test_the_rows_of_the_mirror_have_their_images(mirror):
    folder = mirror / "mmmu_pro_sample"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    task = Task.from_config(
        {
            "task": "mmmu_pro_sample",
            "dataset_path": str(folder),
            "test_split": "test",
            "doc_to_text": "{{question}}\n{{options}}",
            "doc_to_target": "answer",
            "doc_to_image": [f"image_{number}" for number in range(1, 8)],
        }
    )
    requests: list[Any] = [instance.request for instance in task.build_all_requests()]
    assert len(requests) == 16
    assert [len(request.media) for request in requests] == [1, 1, 1, 1, 5, *[1] * 11]
    assert all(request.context.count("<image>") == len(request.media) for request in requests)
    # The options of this one are images, not in their order.
    music = requests[4]
    names = [one.payload.name for one in music.media]
    assert names == [f"test_Music_251_{number}.png" for number in (1, 4, 2, 5, 3)]


@pytest.mark.parity
def test_lm_evals_mmmu_runs_on_rows_of_the_mirror(mirror, tmp_path):
    folder = mirror / "mmmu_pro_sample"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or spec.origin is None:
        pytest.skip("lm-eval is not installed")
    theirs = Path(spec.origin).parent / "tasks" / "mmmu"
    for name in ("_template_yaml", "utils.py"):
        shutil.copy(theirs / name, tmp_path)
    (tmp_path / "mmmu.yaml").write_text(
        f"include: _template_yaml\ntask: mmmu\ndataset_path: {folder}\nvalidation_split: test\n"
    )
    results = evaluate(model="dummy", tasks=[str(tmp_path / "mmmu.yaml")], use_cache=False)
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text().splitlines()]
    loaded = importlib.util.spec_from_file_location("mmmu_utils", tmp_path / "utils.py")
    assert loaded is not None
    assert loaded.loader is not None
    utils = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(utils)
    for row, sample in zip(rows, results.forms[0].samples, strict=True):
        request: Any = sample.instances[0].request
        assert request.context == utils.doc_to_text(row)
        assert [one.payload for one in request.media] == [folder / path for path in utils.doc_to_image(row)]
