"""What a run starts from: the seeds of the random numbers that a task's own code may draw."""

from __future__ import annotations

import random

import numpy

from multiform.run.setup import set_seeds


def test_python_and_numpy_draw_the_same_again():
    set_seeds([1, 2, 3, 4])
    first = random.random(), numpy.random.random()
    set_seeds([1, 2, 3, 4])
    assert (random.random(), numpy.random.random()) == first


def test_none_leaves_a_generator_alone():
    random.seed(5)
    expected = random.random()
    random.seed(5)
    set_seeds([None, None, None, None])
    assert random.random() == expected


def test_code_of_a_task_sees_the_seed(tmp_path):
    from multiform import evaluate

    (tmp_path / "utils.py").write_text(
        "import random\n\n\ndef shuffled(docs):\n    docs = list(docs)\n    random.shuffle(docs)\n    return docs\n"
    )
    rows = "".join(f'{{"q": "{i}", "c": ["a", "b"], "a": 0}}\n' for i in range(20))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: rows.jsonl\ntest_split: test\nprocess_docs: !function utils.shuffled\n"
        "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
    )

    def order(seed: int) -> list[str]:
        results = evaluate(tasks=str(tmp_path / "t.yaml"), model="dummy", seeds=(seed, 1, 1, 1), use_cache=False)
        return [sample.doc["q"] for sample in results.forms[0].samples]

    assert order(3) == order(3)
    assert order(3) != order(4)


def test_the_known_errors_of_a_prompt_are_said_once_and_listed_in_the_results(tmp_path, caplog):
    from multiform import evaluate

    rows = "".join(f'{{"q": "{i}", "c": ["a", "b"], "a": 0}}\n' for i in range(4))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "t.yaml").write_text(
        "group: t\ntask: t_<subset>\nsubsets: [x, y]\ndataset_path: rows.jsonl\ntest_split: test\n"
        "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\nformats:\n  mcqa:\n"
        "  theirs: {type: prompt, output_type: multiple_choice, known_errors: [It cuts a letter.]}\n"
    )
    results = evaluate(model="dummy", tasks=[f"{tmp_path / 't.yaml'}@mcqa+theirs"], include_path=tmp_path)
    assert caplog.text.count("@theirs keeps an error on purpose: It cuts a letter.") == 1
    listed = {result.form: result.config.get("known_errors") for result in results.forms}
    errors = ["It cuts a letter."]
    assert listed == {"t_x@mcqa": None, "t_y@mcqa": None, "t_x@theirs": errors, "t_y@theirs": errors}


def test_a_run_says_which_scores_are_not_comparable_with_published_ones(tmp_path, caplog):
    from multiform import evaluate

    (tmp_path / "rows.jsonl").write_text('{"q": "1", "c": ["a", "b"], "a": 0}\n' * 2)
    head = "dataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
    for name, differs in (("all", "It is graded by a judge."), ("one", "{cloze: It has no letters.}")):
        metadata = f"metadata:\n  differs: {differs}\n"
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{head}formats: {{mcqa: , cloze: }}\n{metadata}")
    evaluate(model="dummy", tasks=["all@mcqa", "one@mcqa"], include_path=tmp_path)
    said = "scores are not comparable with published ones: "
    assert f"{said}It is graded by a judge." in caplog.text
    assert "It has no letters." not in caplog.text
    evaluate(model="dummy", tasks="one@cloze", include_path=tmp_path)
    assert f"{said}It has no letters." in caplog.text
