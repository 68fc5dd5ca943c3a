"""One document in full: chat turns, Markdown, mathematics, images, thoughts, notes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate, read_results, register_model
from multiform.errors import IncompleteRunError
from multiform.models.dummy import DummyModel
from multiform.prompts.media import Media
from multiform.report import write_report
from multiform.requests import Completion, GenerationRequest, LLOutput
from multiform.results.notes import form_notes
from tests.report.conftest import serve

pytestmark = pytest.mark.process

ANSWER = (
    "## Solution\n\nBy *Euler*, $e^{i\\pi} + 1 = 0$ and \\[\\int_0^1 x^2 \\, dx = \\frac{1}{3}\\]\n\n"
    "1. first\n2. second\n\n```python\nprint('<b>')\n```\n\nIt costs $5 or $6. <img src=x onerror=hack()> "
    "[link](https://example.com) 👩\u200d👩\u200d👧 a\u200db می\u200cخواهم"
)


class ChatDummy(DummyModel):
    """Has the chat template of many models."""

    def __init__(self) -> None:
        super().__init__(text=ANSWER)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        turns = [f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in messages]
        return "".join(turns) + ("<|im_start|>assistant\n" if add_generation_prompt else "")


@pytest.fixture(scope="module")
def chat() -> Results:
    """A chat whose few-shot examples are turns."""
    register_model("chat_dummy")(ChatDummy)
    chat: dict[str, Any] = {
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "system_instruction": "Be brief.",
    }
    return evaluate(
        model="chat_dummy", tasks="quiz@mcqa+generate", num_fewshot=2, limit=4, progress=False, use_cache=False, **chat
    )


@pytest.fixture
def opened(open_page: Callable[..., Any], chat: Results, tmp_path: Path) -> Any:
    """The first document of the chat, with its generated answer, rendered."""
    url = write_report([chat], tmp_path / "report.html").as_uri()
    page = open_page(f"{url}#sample=quiz%2F0&form=0%3Aquiz%40generate&view=rendered")
    page.wait_for_selector(".detail .turn")
    return page


def test_documents_of_a_chat_are_labelled_by_their_own_questions(opened: Any, chat: Results) -> None:
    """And not by those of the few-shot examples, which are turns, too."""
    heads = opened.locator(".list .head").all_inner_texts()
    questions = [str(sample.doc["question"]) for sample in chat.forms[0].samples]
    assert [head[:40] for head in heads] == [question[:40] for question in questions]


def test_few_shot_turns_are_folded_and_the_question_is_the_last_turn(opened: Any, chat: Results) -> None:
    question = str(chat.forms[0].samples[0].doc["question"])
    assert question in opened.locator(".detail .turn.user").inner_text()
    opened.locator(".detail details.shots summary").first.click()
    opened.wait_for_selector(".detail .shots .turn")
    roles = opened.locator(".detail .shots .turn > b").all_inner_texts()
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    opened.keyboard.press("r")  # the exact text
    opened.wait_for_selector(".detail pre.text")
    assert opened.locator(".detail pre.text").first.inner_text().startswith("Given the following question")


def test_the_turn_that_the_model_begins_has_no_empty_box(
    open_page: Callable[..., Any], chat: Results, tmp_path: Path
) -> None:
    url = write_report([chat], tmp_path / "report.html").as_uri()
    page = open_page(f"{url}#sample=quiz%2F0&form=0%3Aquiz%40mcqa&view=rendered")
    page.wait_for_selector(".detail .turn.assistant")
    assert page.locator(".detail .turn.assistant").inner_text() == "assistant"
    assert not page.locator(".detail .turn.assistant .rendered").count()


def test_markdown_code_and_mathematics_are_rendered_and_markup_is_not(opened: Any) -> None:
    answer = opened.locator(".detail p.completion + .rendered")
    assert answer.locator("math").count() == 2
    assert answer.locator("math mfrac").count() == 1
    assert answer.locator("ol li").count() == 2
    assert answer.locator("pre.code").inner_text() == "print('<b>')"
    assert answer.locator("img, a, script").count() == 0
    text = answer.inner_text()
    assert "<img src=x onerror=hack()>" in text
    assert "$5 or $6" in text


def test_joined_emoji_and_letters_stay_whole_and_hidden_joiners_are_named(opened: Any) -> None:
    text = opened.locator(".detail p.completion + .rendered").inner_text()
    assert "👩\u200d👩\u200d👧" in text
    assert "می\u200cخواهم" in text
    assert "aU+200Db" in text


def test_a_thought_is_apart_from_the_answer(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate", limit=2, progress=False, use_cache=False)
    outputs = (Completion("The best answer is B", thought="Let me think."),)
    samples = [replace(sample, outputs=outputs) for sample in results.forms[0].samples]
    changed = replace(results, forms=[replace(results.forms[0], samples=samples)])
    page = open_page(write_report([changed], tmp_path / "r.html").as_uri() + "#sample=quiz%2F0")
    page.wait_for_selector(".detail p.completion")
    assert page.locator(".detail p.completion + pre.text").inner_text() == "The best answer is B"
    page.get_by_text("thought, 13 characters").click()
    assert page.locator(".detail .shots pre.text").last.inner_text() == "Let me think."


def test_a_completion_says_its_tokens_and_time(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Also where the run is read from its files."""

    @register_model("timed_dummy")
    class TimedDummy(DummyModel):
        """Says how much it generates and how long that takes."""

        def generate(self, requests: Any) -> Any:
            for position, completion in super().generate(requests):
                yield position, replace(completion, tokens=12, seconds=0.3456)

    settings: dict[str, Any] = {"limit": 2, "progress": False, "use_cache": False, "log_samples": True}
    evaluate(model="timed_dummy", tasks="quiz@generate", output_path=tmp_path, **settings)
    url = write_report([read_results(tmp_path)], tmp_path / "r.html").as_uri()
    page = open_page(url + "#sample=quiz%2F0")
    page.wait_for_selector(".detail p.completion")
    assert "12 tokens in 0.35 s" in page.locator(".detail p.completion").inner_text()


def picture() -> Media:
    image_module = pytest.importorskip("PIL.Image")
    data = io.BytesIO()
    image_module.new("RGB", (40, 30), "red").save(data, "PNG")
    return Media("image", "ab" * 32, "40x30", data.getvalue())


def test_images_are_shown(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate", limit=2, progress=False, use_cache=False)
    [form] = results.forms
    request = GenerationRequest("What is in <image>?", media=[picture()])
    samples = []
    for sample in form.samples:
        instances = (replace(sample.instances[0], request=request),)
        samples.append(replace(sample, sample=replace(sample.sample, instances=instances)))
    shown = replace(results, forms=[replace(form, samples=samples)])
    link = "#sample=quiz%2F0&view=rendered"
    page = open_page(write_report([shown], tmp_path / "r.html").as_uri() + link)
    image = page.locator(".detail .rendered img")
    image.wait_for()
    assert image.evaluate("image => image.naturalWidth") == 40
    assert image.get_attribute("alt") == "image, 40x30"


@pytest.fixture
def image_task(tmp_path: Path) -> str:
    """A task over two images."""
    image_module = pytest.importorskip("PIL.Image")
    for name, color in (("one", "red"), ("two", "blue")):
        image_module.new("RGB", (40, 30), color).save(tmp_path / f"{name}.png")
    rows = [{"question": "What is in <image>?", "image": f"{name}.png", "answer": "a box"} for name in ("one", "two")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "boxes.yaml").write_text(
        "task: boxes\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: question\ndoc_to_target: answer\ndoc_to_image: image\nmetric_list: [{metric: exact_match}]\n"
    )
    return f"{tmp_path}/boxes.yaml"


@pytest.fixture
def image_run(image_task: str, tmp_path: Path) -> Path:
    """The folder of a run over two images."""
    folder = tmp_path / "out"
    evaluate(model="dummy", tasks=image_task, output_path=folder, log_samples=True, progress=False)
    return folder


def test_images_of_a_run_that_is_read_from_files_are_shown(
    open_page: Callable[..., Any], image_run: Path, tmp_path: Path
) -> None:
    results = read_results(image_run)
    assert results.samples("boxes")[0]["arguments"]["gen_args_0"]["arg_2"]["visual"][0]["size"] == "40x30"
    report = write_report([results], tmp_path / "r.html").as_uri()
    image = open_page(report + "#sample=boxes%2F1&view=rendered").locator(".detail .rendered img")
    image.wait_for()
    assert image.evaluate("image => image.naturalWidth") == 40


def test_the_viewer_shows_the_images_of_a_run(open_page: Callable[..., Any], image_run: Path) -> None:
    with serve(image_run) as viewer:
        page = open_page(viewer.url)
        page.locator("#runs a").click()
        page.get_by_role("tab", name="Samples").click()
        page.locator(".list .doc").first.click()
        image = page.locator(".detail img")
        image.wait_for()
        assert image.evaluate("image => image.naturalWidth") == 40


@pytest.mark.parametrize("live", [False, True])
def test_a_run_that_is_not_complete_has_images_and_times(
    open_page: Callable[..., Any], image_task: str, tmp_path: Path, live: bool
) -> None:
    class Gone(DummyModel):
        """Fails after one document, of which it says how long it took."""

        def generate(self, requests: Any) -> Any:
            for position, completion in list(super().generate(requests))[:1]:
                yield position, replace(completion, tokens=12, seconds=0.3456)
            raise RuntimeError("the device is gone")

    folder = tmp_path / "out"
    with pytest.raises(IncompleteRunError):
        evaluate(model=Gone(), tasks=image_task, output_path=folder, log_samples=True, progress=False, use_cache=False)
    [state], [results] = folder.rglob("run_*.json"), folder.rglob("partial_results_*.json")
    if live:
        results.unlink()
        state.write_text(json.dumps({**json.loads(state.read_text()), "status": "running", "pid": os.getpid()}))
    with serve(folder) as viewer:
        page = open_page(viewer.url)
        page.locator("#going-on a" if live else "#stopped a").click()
        page.get_by_role("tab", name="Samples").click()
        page.locator(".list .doc").first.click()
        image = page.locator(".detail img")
        image.wait_for()
        assert image.evaluate("image => image.naturalWidth") == 40
        assert "12 tokens in 0.35 s" in page.locator(".detail p.completion").inner_text()


def test_log_likelihoods_say_why_they_have_no_time(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=False, use_cache=False)
    [form] = results.forms
    samples = [
        replace(s, outputs=tuple(replace(output, tokens=3) for output in s.outputs if isinstance(output, LLOutput)))
        for s in form.samples
    ]
    shown = replace(results, forms=[replace(form, samples=samples)])
    page = open_page(write_report([shown], tmp_path / "r.html").as_uri() + "#sample=quiz%2F0")
    tokens = page.locator(".detail .choice .tokens abbr").first
    assert tokens.inner_text() == "3 tok"
    assert "have no time of their own" in tokens.get_attribute("title")


def test_log_likelihoods_of_a_server_say_their_tokens_and_time(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Also where the run is read from its files, and where the sample has a completion, too."""

    @register_model("timed_scores")
    class TimedScores(DummyModel):
        """Says how long each request took."""

        def loglikelihood(self, requests: Any) -> Any:
            for position, output in super().loglikelihood(requests):
                yield position, replace(output, tokens=3, seconds=0.25 + position)

    settings: dict[str, Any] = {"limit": 1, "progress": False, "use_cache": False, "log_samples": True}
    evaluate(model="timed_scores", tasks="quiz@mcqa", output_path=tmp_path, **settings)
    page = open_page(write_report([read_results(tmp_path)], tmp_path / "r.html").as_uri() + "#sample=quiz%2F0")
    page.wait_for_selector(".choice")
    costs = page.locator(".choice .tokens").all_inner_texts()
    assert sorted(costs) == [f"3 tok, {seconds}.25 s" for seconds in range(4)]


def test_a_note_of_the_reader_stays_and_can_be_filtered(opened: Any) -> None:
    opened.locator("textarea.note").fill("ambiguous")
    opened.locator("textarea.note").blur()
    opened.reload()
    opened.wait_for_selector("textarea.note")
    assert opened.locator("textarea.note").input_value() == "ambiguous"
    opened.get_by_label("filter", exact=True).fill("noted")
    opened.get_by_text("1 of 4 documents").wait_for()


def test_filters_take_numbers(opened: Any, chat: Results) -> None:
    margins = []
    for sample in chat.forms[0].samples:
        first, second = sorted((output.loglikelihood for output in sample.outputs), reverse=True)[:2]  # type: ignore[union-attr]
        margins.append(first - second)
    bound = sorted(margins)[1] + 1e-3
    opened.get_by_label("filter", exact=True).fill(f"margin < {bound:.4f} in mcqa and length > 10")
    opened.get_by_text(f"{sum(margin < bound for margin in margins)} of 4 documents").wait_for()
    opened.get_by_label("filter", exact=True).fill("length > 99999")
    opened.get_by_text("0 of 4 documents").wait_for()


def test_the_chart_and_the_listed_documents_can_be_saved(opened: Any) -> None:
    with opened.expect_download() as csv:
        opened.get_by_role("button", name="CSV").click()
    assert Path(csv.value.path()).read_text().startswith('"task","doc","question"')
    opened.get_by_role("tab", name="Overview").click()
    with opened.expect_download() as png:
        opened.get_by_role("button", name="PNG").click()
    assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")


def test_results_from_files_have_the_notes_on_extraction(tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate+cot", limit=30, progress=False, use_cache=False)
    results.save(tmp_path)
    notes = list(form_notes(results))
    assert any("a lenient extractor would give" in note for note in notes)
    assert list(form_notes(read_results(tmp_path))) == notes
    assert list(form_notes(read_results(tmp_path, samples=False))) == notes


def test_messages_for_a_server_are_read_as_turns(open_page: Callable[..., Any], chat: Results, tmp_path: Path) -> None:
    [form, *_] = chat.forms[1:]
    samples = []
    for number, sample in enumerate(form.samples):
        messages = [
            {"role": "user", "content": 'Example "one"?'},
            {"role": "assistant", "content": "Yes"},
            {"role": "user", "content": f"Own question {number}\nIs it?"},
        ]
        request = GenerationRequest(messages)
        assert json.loads(request.context) == messages
        instances = (replace(sample.instances[0], request=request),)
        samples.append(replace(sample, sample=replace(sample.sample, instances=instances)))
    shown = replace(chat, forms=[replace(form, samples=samples)], comparisons=[])
    page = open_page(write_report([shown], tmp_path / "r.html").as_uri() + "#sample=quiz%2F0&view=rendered")
    page.wait_for_selector(".detail .turn")
    assert "Own question 0" in page.locator(".detail .turn.user").inner_text()
    assert page.locator(".list .head").nth(1).inner_text().startswith("Own question 1")
