"""Where guardrails come from: built in, or named as a class; never from the current folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError
from codemode_server.features.guardrails.loading import load_guardrails
from codemode_server.features.guardrails.settings import guardrails_of

CODE = """\
from codemode_server.features.guardrails import Block, Guardrail, Pass

class NoWeekends(Guardrail):
    def before_call(self, call):
        return Pass()

class Broken(Guardrail):
    def __init__(self, settings):
        raise ValueError("no list")

def function(): ...
"""


def load(*guardrails: dict[str, Any]) -> list[str]:
    return [it.name for it in load_guardrails(guardrails_of(Settings.model_validate({"guardrails": guardrails})))]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that is installed."""
    name = f"rails_{tmp_path.name.replace('-', '_')}"
    site = tmp_path / "site"
    site.mkdir()
    (site / f"{name}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(site))
    return name


def test_they_are_loaded_in_the_order_of_the_configuration(package: str) -> None:
    assert load({"use": f"{package}:NoWeekends"}, {"use": "secrets"}) == ["NoWeekends", "secrets"]


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "evil_rails.py").write_text(CODE)
    monkeypatch.chdir(repository)
    for there in ("", ".", str(repository)):
        monkeypatch.setattr(sys, "path", [there, *sys.path])
        with pytest.raises(SettingsError, match="can't be imported"):
            load({"use": "evil_rails:NoWeekends"})
    monkeypatch.chdir(tmp_path)
    assert load({"use": "evil_rails:NoWeekends"}), "control: from another folder it is what the person put on the path"


@pytest.mark.parametrize(
    ("guardrail", "message"),
    [
        ({"use": "secret"}, "guardrails[0].use: there is no guardrail 'secret'; did you mean 'secrets'?"),
        ({"use": "secrets", "settings": {"acton": "ask"}}, "did you mean 'action'?"),
        ({"use": "secrets", "settings": {"action": "many-private"}}, "guardrails[0].settings.action: "),
        ({"use": "domains"}, "give `allow` or `deny`"),
        ({"use": "nowhere.at_all:Rail"}, "can't be imported"),
        ({"use": "json:JSONDecoder"}, "is no class derived from"),
    ],
)
def test_one_that_cant_be_loaded_says_what_to_do(guardrail: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(guardrail)
    assert message in str(error.value)
    assert "many-private" not in str(error.value)
