"""Which sandbox programs run in: the one that was asked for, the best that works, or none at all."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from multiform import UsageError, evaluate
from multiform.sandbox import chosen_sandbox, program, using_sandbox


@pytest.fixture
def working(monkeypatch):
    """Say which sandboxes work."""

    def say(*names: str) -> None:
        monkeypatch.setattr(program, "_problem", lambda name: None if name in names else "it is not there")

    monkeypatch.delenv("MULTIFORM_SANDBOX", raising=False)
    return say


def test_bubblewrap_is_preferred_and_landlock_is_next(working):
    working("bwrap", "landlock", "docker", "none")
    assert chosen_sandbox() == "bwrap"
    working("landlock", "docker", "none")
    assert chosen_sandbox() == "landlock"


def test_without_a_sandbox_programs_are_refused_unless_none_is_said(working):
    working("docker", "none")
    with pytest.raises(
        UsageError, match=r"there is none here \(bwrap: it is not there; landlock: .*install bubblewrap"
    ):
        chosen_sandbox()
    with using_sandbox("none"):
        assert chosen_sandbox() == "none"


def test_the_environment_may_name_the_sandbox_and_the_run_comes_first(working, monkeypatch):
    working("bwrap", "landlock", "none")
    monkeypatch.setenv("MULTIFORM_SANDBOX", "none")
    assert chosen_sandbox() == "none"
    with using_sandbox("landlock"):
        assert chosen_sandbox() == "landlock"
    monkeypatch.setenv("MULTIFORM_SANDBOX", "jail")
    with pytest.raises(UsageError, match="no sandbox 'jail'"):
        chosen_sandbox()


@pytest.mark.parametrize("name", ["jail", "", "docker:", 5])
def test_an_unknown_sandbox_is_an_error(name):
    with pytest.raises(UsageError, match=r"sandbox: expected one of bwrap, landlock, docker, none, or docker:IMAGE"):
        evaluate(tasks="quiz", model="dummy", limit=1, sandbox=name)


def test_a_sandbox_that_was_asked_for_is_not_replaced(working):
    working("bwrap")
    with using_sandbox("landlock"), pytest.raises(UsageError, match="landlock does not work here: it is not there"):
        chosen_sandbox()


def test_a_container_has_no_network_no_rights_and_a_file_system_that_cannot_be_written():
    words = program.command("docker:my/image:2", "name")
    assert words[:2] == ["docker", "run"]
    joined = " ".join(words)
    for part in ("--network none", "--read-only", "--cap-drop ALL", "no-new-privileges", "--user 65534:65534", "--rm"):
        assert part in joined
    assert "--pids-limit" in joined
    assert "/guest:ro" in joined
    assert words[words.index("my/image:2") + 1] == "python3"
    assert program.IMAGE in program.command("docker", "name")


@pytest.mark.process
def test_a_container_without_an_engine_is_said():
    if shutil.which("docker") is None:
        pytest.skip("there is no docker client here")
    if subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60).returncode == 0:
        pytest.skip("there is an engine here")
    with using_sandbox("docker"), pytest.raises(UsageError, match=r"--sandbox: docker does not work here: .*daemon"):
        chosen_sandbox()


def test_bubblewrap_shows_what_python_needs_and_no_more(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(program, "_bubblewrap_version", lambda: (0, 6))
    words = program.command("bwrap", "")
    places = {words[index + 1] for index, word in enumerate(words) if word == "--ro-bind-try"}
    assert "/" not in places
    assert not places & {"/home", "/root", "/etc", "/proc", "/var", "/tmp"}
    assert {"--unshare-all", "--die-with-parent", "--new-session"} <= set(words)
    assert "--bind" not in words
    assert "--size" not in words  # releases before 0.7 do not know it
