"""What a new user meets first: a CSV file, choices without a format, metrics that are not installed, `show --limit`."""

from __future__ import annotations

import pytest

CSV = "question,A,B,C,D,answer\nTwo plus two?,3,4,5,6,B\nCapital of France?,Rome,Berlin,Paris,Madrid,C\n"
TASK = "task: t\ndataset_path: q.csv\ntest_split: test\ndoc_to_text: question\ndoc_to_target: answer\n"
COLUMNS = 'doc_to_choice: ["{{A}}", "{{B}}", "{{C}}", "{{D}}"]\n'


@pytest.mark.parametrize("command", ["show", "lint", "validate", "run"])
def test_choices_without_a_format_are_refused_by_every_command(command, folder):
    folder.write({"q.csv": CSV, "t.yaml": TASK + COLUMNS})
    ran = folder.run(command, "t.yaml", *(["--model", "dummy"] if command == "run" else []))
    assert ran.code == 2
    assert "the task has choices but no format and no output_type" in ran.out + ran.err


def test_choices_in_columns_of_their_own_are_suggested(folder):
    folder.write({"q.csv": CSV, "t.yaml": TASK + "doc_to_choice: choices\n"})
    ran = folder.run("show", "t.yaml@mcqa")
    assert ran.errors[0].endswith('columns of their own, write ["{{A}}", "{{B}}", "{{C}}", "{{D}}"]')
    folder.write({"t.yaml": TASK})
    assert 'a list of columns such as ["{{A}}", "{{B}}"]' in folder.run("show", "t.yaml@mcqa").err
    folder.write({"t.yaml": TASK + COLUMNS})
    assert "C. Paris" in folder.run("show", "t.yaml@mcqa", "--doc", "1").out


def test_a_table_saved_with_semicolons_is_understood(folder):
    folder.write({"q.csv": CSV.replace(",", ";")})
    assert folder.run("new", "q.csv", "--output", "t.yaml").code == 0
    assert "dataset_kwargs: {sep: ;}  # guess: what separates the columns" in (folder.path / "t.yaml").read_text()
    assert "C. Paris" in folder.run("show", "t.yaml@mcqa", "--doc", "1").out
    folder.write({"u.yaml": TASK + COLUMNS})
    assert (
        "columns are separated by ';' here: write dataset_kwargs: {sep: \";\"}" in folder.run("show", "u.yaml@mcqa").err
    )


def test_labels_that_are_columns_are_told_from_choices(folder):
    folder.write({"q.csv": CSV, "t.yaml": TASK + "doc_to_choice: [A, B, C, D]\noutput_type: multiple_choice\n"})
    shown = folder.run("show", "t.yaml@mcqa")
    assert shown.errors[-1].endswith('write formats: mcqa and doc_to_choice: ["{{A}}", "{{B}}", "{{C}}", "{{D}}"]')


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt2", "if it is a model on the hub, write --model hf --model_args pretrained=gpt2; models: "),
        ("org/model", "write --model hf --model_args pretrained=org/model"),
        ("claude-sonnet-4-6", "write --model anthropic --model_args model=claude-sonnet-4-6"),
        ("gpt-4.1", "write --model openai-chat --model_args model=gpt-4.1"),
    ],
)
def test_the_name_of_a_model_itself_comes_with_the_flags_that_load_it(name, hint, folder):
    assert f"error: --model: no model '{name}'; {hint}" in folder.run("run", "quiz@mcqa", "--model", name).err


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("sweep", "multiform sweep sweep.yaml"),
        ("advise", "multiform advise pilot --half_width 0.02"),
        ("compare", "multiform compare results/base results/tuned"),
    ],
)
def test_a_command_without_its_arguments_says_what_to_type(command, example, folder):
    assert folder.run(command).errors[0].endswith(f"type e.g. {example}")


def test_show_takes_a_limit(folder):
    folder.write({"q.csv": CSV, "t.yaml": TASK + COLUMNS})
    assert folder.run("show", "t.yaml@mcqa", "--limit", "2").out.count("=== ") == 2
    assert folder.run("show", "t.yaml@mcqa", "--limit", "0.5").out.count("=== ") == 1
    assert "--limit: --doc names the documents" in folder.run("show", "t.yaml@mcqa", "--limit", "1", "--doc", "1").err


def test_show_needs_no_metrics(folder):
    folder.write(
        {
            "q.csv": CSV,
            "scores.py": "import no_such_package\n\ndef score(*args): ...\n",
            "t.yaml": TASK + "output_type: generate_until\nmetric_list:\n  - metric: !function scores.score\n",
        }
    )
    shown = folder.run("show", "t.yaml")
    assert shown.code == 0
    assert "Two plus two?" in shown.out
    assert "No module named 'no_such_package'" in folder.run("validate", "t.yaml").out


def test_without_vllm_the_hint_names_its_extra(folder):
    pytest.importorskip("transformers")
    try:
        import vllm  # noqa: F401
    except ImportError:
        ran = folder.run("run", "quiz@mcqa", "--model", "vllm", "--model_args", "pretrained=x", "--limit", "1")
        assert "pip install 'multiform[vllm]'" in ran.err
    else:
        pytest.skip("vLLM is installed")
