"""Images and sounds in the messages that a chat server gets."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest

from multiform.errors import ModelError
from multiform.forms.media import media_from
from multiform.models.servers.openai_chat import OpenAIChat, message_part
from multiform.models.servers.openai_completions import OpenAICompletions
from multiform.models.servers.protocol import with_media
from multiform.prompts.media import decode_wav
from multiform.requests import GenerationRequest

Image = pytest.importorskip("PIL.Image")


def picture(colour: str = "red"):
    return media_from(Image.new("RGB", (2, 2), colour), "image", Path)


def sound():
    return media_from({"array": np.linspace(-0.5, 0.5, 800), "sampling_rate": 8000}, "audio", Path)


def test_images_and_sounds_are_sent_as_parts(server):
    model = OpenAIChat(model="m", base_url=server.base_url)
    request = GenerationRequest.of("Is <image> like <audio>?", {"max_gen_toks": 4}, 0, (picture(), sound()))
    list(model.generate([request]))
    (message,) = server.asked[0].payload["messages"]
    one, image, two, audio, three = message["content"]
    assert [one, two, three] == [{"type": "text", "text": text} for text in ("Is ", " like ", "?")]
    head, _, data = image["image_url"]["url"].partition(",")
    assert (image["type"], head) == ("image_url", "data:image/png;base64")
    assert Image.open(io.BytesIO(base64.b64decode(data))).getpixel((0, 0)) == (255, 0, 0)
    assert (audio["type"], audio["input_audio"]["format"]) == ("input_audio", "wav")
    assert decode_wav(base64.b64decode(audio["input_audio"]["data"])).rate == 8000


def test_the_parts_of_a_chat_are_filled_in_their_order(server):
    model = OpenAIChat(model="m", base_url=server.base_url)
    chat = model.apply_chat_template(
        [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "red"}]},
            {"role": "user", "content": [{"type": "image"}]},
        ]
    )
    list(model.generate([GenerationRequest.of(chat, {}, 0, (picture("red"), picture("blue")))]))
    sent = server.asked[0].payload["messages"]
    urls = [part["image_url"]["url"] for message in sent for part in message["content"] if part["type"] == "image_url"]
    assert urls == [picture("red").data_url(), picture("blue").data_url()]


def test_a_file_is_sent_as_it_is(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    media = media_from(tmp_path / "a.jpg", "image", Path)
    assert media.encode() == ("image/jpeg", (tmp_path / "a.jpg").read_bytes())


@pytest.mark.parametrize(
    ("content", "media"),
    [("no mark", (picture(),)), ([{"type": "image"}], (sound(),)), ([{"type": "image"}] * 2, (picture(),))],
)
def test_media_without_a_place_and_places_without_media_are_errors(content, media):
    with pytest.raises(ModelError):
        with_media([{"role": "user", "content": content}], media, message_part)


def test_messages_without_media_stay_as_they_are():
    messages = [{"role": "user", "content": "What is <image>?"}]
    assert with_media(messages, (), message_part) == messages


def test_a_completion_server_reads_text_alone(server):
    model = OpenAICompletions(model="m", base_url=server.base_url)
    with pytest.raises(ModelError, match="reads text"):
        model.check_media(["image"])
