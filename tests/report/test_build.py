"""The page's script in the package is what its sources build."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "tools" / "page"

pytestmark = pytest.mark.process


def test_the_built_script_is_what_its_sources_build() -> None:
    if shutil.which("node") is None or not (PAGE / "node_modules").is_dir():
        pytest.skip("there is no node, or its packages are missing: make page installs them")
    built = subprocess.run(["node", "build.js", "--check"], cwd=PAGE, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_the_lockfile_names_no_registry() -> None:
    packages = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    assert not any("resolved" in package for package in packages.values())
    assert all("integrity" in package for name, package in packages.items() if name)
