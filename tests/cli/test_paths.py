"""`codemode-server paths` names every place that is used, those of the configuration relative to its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codemode_server.cli import run
from tests.behaviour.product import configuration


def test_the_folders_of_skills_and_workflows_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"dir": str(tmp_path / "state"), "workflows": "flows"}
    path = configuration(tmp_path, {}, state=state)
    assert run(["paths", "--json", "--config", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(path)
    assert (found["workflows"], found["skills"]) == (str(tmp_path / "flows"), str(tmp_path / "skills"))


def test_a_configuration_with_mistakes_names_the_folders_of_the_user_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "upstream.yaml"
    path.write_text("servers: [")
    assert run(["paths", "--json", "--config", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "config" in found
    assert "workflows" not in found
