"""Plug-ins: `--import`, and entry points of an installed package."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import multiform
from multiform.tasks.functions import import_plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
MODEL = """
from multiform import Completion, LLOutput, Model, register_model

SCALE = -1.0

def score(text):
    return SCALE * len(text)

@register_model("mine")
class MyModel(Model):
    '''Prefers short continuations.'''

    name = identity = "mine"

    def __init__(self, **arguments): ...

    def loglikelihood(self, requests):
        for position, request in enumerate(requests):
            yield position, LLOutput(score(request.continuation), is_greedy=False)

    def loglikelihood_rolling(self, requests):
        for position, request in enumerate(requests):
            yield position, LLOutput(score(request.text))

    def generate(self, requests):
        for position, request in enumerate(requests):
            yield position, Completion(" yes")
"""


def command(*arguments, cwd, path=()):
    """Run the command line in a process of its own, with folders on its path."""
    source = Path(multiform.__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (source, *path, os.environ.get("PYTHONPATH", "")))),
    }
    words = [sys.executable, "-m", "multiform", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def model_file(tmp_path):
    file = tmp_path / "my_models.py"
    file.write_text(MODEL)
    return file


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example package, installed into a folder as pip does it offline."""
    folder, source = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source)  # a build leaves files behind
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    words = [sys.executable, "-m", "pip", "install", *flags, "--target", str(folder), str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and "setuptools" in done.stderr:
        pytest.skip("setuptools, which builds the package, is not installed")
    assert done.returncode == 0, done.stderr
    return folder


class TestImport:
    """`--import FILE` on the command line, and `imports=` in Python."""

    @pytest.mark.process
    def test_a_model_of_a_file_is_listed_and_run(self, model_file, tmp_path):
        listed = command("ls", "models", "--import", model_file, cwd=tmp_path)
        assert "mine" in listed.stdout
        assert "Prefers short continuations." in listed.stdout
        ran = command("run", "quiz@cloze", "-L", 4, "--model", "mine", "--import", model_file, "--json", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["config"]["model"] == "mine"

    def test_a_format_of_a_file_is_shown_and_validated(self, tmp_path, folder):
        file = tmp_path / "forms.py"
        file.write_text(
            "from dataclasses import dataclass\nfrom multiform import MCQAFormat\n\n"
            "@dataclass(frozen=True, kw_only=True)\nclass Pointed(MCQAFormat):\n    '''Choices as <A>.'''\n\n"
            "    format_name = 'pointed_here'\n    choice_format: str = '<{label}> {choice}'\n"
        )
        ran = folder.run("show", "quiz@pointed_here", "--import", str(file))
        assert ran.code == 0
        assert "<A> " in ran.out
        assert folder.run("validate", "quiz@pointed_here", "--import", str(file)).code == 0

    def test_a_sweep_names_files_too(self, model_file, tmp_path, folder):
        sweep = tmp_path / "sweep.yaml"
        sweep.write_text(f"models: [mine]\ntasks: [quiz@cloze]\nlimit: 4\nimports: {model_file}\nuse_cache: false\n")
        ran = folder.run("sweep", str(sweep))
        assert ran.code == 0, ran.err
        assert "mine" in ran.out

    def test_scripts_of_a_sweep_pass_it_on(self, model_file, tmp_path, folder):
        sweep = tmp_path / "sweep.yaml"
        sweep.write_text("models: [mine]\ntasks: [quiz@cloze]\n")
        assert folder.run("sweep", str(sweep), "--import", str(model_file), "--slurm", str(tmp_path / "jobs")).code == 0
        assert f"--import {model_file}" in (tmp_path / "jobs" / "array.sbatch").read_text()

    def test_code_that_is_refused_is_not_imported(self, tmp_path, folder):
        file = tmp_path / "leaves_a_trace.py"
        file.write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
        ran = folder.run("show", "quiz@mcqa", "--import", str(file), "--no_code")
        assert ran.code == 2
        assert "is code, which --no_code refuses; leave one out" in ran.err
        assert not (tmp_path / "trace").exists()

    def test_a_config_file_may_name_it(self, model_file, tmp_path, folder):
        config = tmp_path / "run.yaml"
        config.write_text(f"import: {model_file}\nmodel: mine\ntasks: quiz@cloze\nlimit: 2\n")
        assert folder.run("run", "--config", str(config)).code == 0

    @pytest.mark.parametrize(
        ("source", "message"),
        [("1/0", "cannot be imported: ZeroDivisionError"), ("import no_such", "cannot be imported"), (None, "no file")],
    )
    def test_a_file_that_fails_is_one_message(self, source, message, tmp_path, folder):
        file = tmp_path / "broken.py"
        if source is not None:
            file.write_text(source)
        ran = folder.run("ls", "models", "--import", str(file))
        assert ran.code == 2
        assert message in ran.err
        assert len(ran.err.splitlines()) == 1

    def test_a_module_by_name(self):
        import_plugins("json.tool")
        assert "json.tool" in sys.modules

    def test_evaluate_takes_it(self, model_file):
        results = multiform.evaluate(model="mine", tasks="quiz@cloze", imports=model_file, limit=3)
        assert results["quiz@cloze"]["acc"] >= 0

    @pytest.mark.slow
    @pytest.mark.process
    def test_ray_workers_get_the_code(self, model_file, tmp_path):
        pytest.importorskip("ray")
        flags = ["--model", "mine", "--import", model_file.name, "--executor", "ray", "--workers", 2]
        done = command("run", "quiz@cloze", "-L", 4, *flags, "--resources", "cpu=0.5", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["results"]["quiz@cloze"]["sample_len"] == 4


@pytest.mark.process
class TestEntryPoints:
    """The example package."""

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            ("models", "longest"),
            ("formats", "brackets"),
            ("metrics", "first_choice"),
            ("tasks", "rivers"),
            ("exporters", "headlines"),
        ],
    )
    def test_ls_lists_it(self, kind, name, installed, tmp_path):
        done = command("ls", kind, cwd=tmp_path, path=[installed])
        assert name in [line.split()[0] for line in done.stdout.splitlines()]

    def test_listing_takes_less_than_half_a_second(self, installed, tmp_path):
        command("ls", "models", cwd=tmp_path, path=[installed])
        seconds = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command("ls", "tasks", cwd=tmp_path, path=[installed])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert min(seconds) < 0.5

    def test_run_uses_it(self, installed, tmp_path):
        done = command("run", "rivers@brackets", "--model", "longest", "--json", cwd=tmp_path, path=[installed])
        assert done.returncode == 0, done.stderr
        assert {"acc,none", "first_choice,none"} <= set(json.loads(done.stdout)["results"]["rivers@brackets"])
        shown = command("show", "rivers@brackets", cwd=tmp_path, path=[installed])
        assert "(B) Seine" in shown.stdout

    def test_export_uses_it(self, installed, tmp_path):
        run = ("run", "rivers@brackets", "--model", "longest", "--output_path", "out")
        assert command(*run, cwd=tmp_path, path=[installed]).returncode == 0
        exported = command("export", "out", "--to", "headlines", cwd=tmp_path, path=[installed])
        assert exported.returncode == 0, exported.stderr
        assert (tmp_path / "exported" / "headlines.tsv").read_text().startswith("rivers@brackets\t")

    def test_sweep_uses_it(self, installed, tmp_path):
        (tmp_path / "sweep.yaml").write_text("models: [longest]\ntasks: [rivers]\nformats: [brackets]\n")
        done = command("sweep", "sweep.yaml", "--cache_path", "a.db", cwd=tmp_path, path=[installed])
        assert done.returncode == 0, done.stderr
        assert "rivers@brackets" in done.stdout

    def test_a_package_that_cannot_be_imported_is_one_warning(self, tmp_path):
        entry = tmp_path / "broken-1.0.dist-info"
        entry.mkdir()
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
        (entry / "entry_points.txt").write_text("[multiform.models]\ntheirs = no_such_module:Model\n")
        done = command("ls", "models", cwd=tmp_path, path=[tmp_path])
        assert done.returncode == 0
        assert "bundled" in done.stdout
        assert "theirs" not in done.stdout
        assert done.stderr.count("plug-in 'theirs' (multiform.models) of broken 1.0 cannot be imported") == 1
        assert len(done.stderr.splitlines()) == 1
        ran = command("run", "quiz@mcqa", "--model", "theirs", cwd=tmp_path, path=[tmp_path])
        assert ran.returncode == 2
        assert "cannot be imported" in ran.stderr
        assert command("ls", "tasks", cwd=tmp_path, path=[tmp_path]).stderr == ""

    def test_a_built_in_name_is_not_replaced(self, tmp_path):
        entry = tmp_path / "other-1.0.dist-info"
        entry.mkdir()
        (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        (entry / "entry_points.txt").write_text("[multiform.models]\ndummy = other_models:Dummy\n")
        done = command("ls", "models", cwd=tmp_path, path=[tmp_path])
        assert "plug-in 'dummy' (multiform.models) of other 1.0 is not used" in done.stderr
        assert "answers at once, knows nothing" in done.stdout

    @pytest.mark.slow
    def test_ray_workers_import_the_package(self, installed, tmp_path):
        pytest.importorskip("ray")
        flags = ["--model", "longest", "--executor", "ray", "--workers", 2, "--resources", "cpu=0.5", "--json"]
        done = command("run", "rivers@brackets", *flags, cwd=tmp_path, path=[installed])
        assert done.returncode == 0, done.stderr
