"""Names in free text of protected servers, through the whole product: they become tokens where a recognizer is set, and
nothing is sent on that could not be searched for them. Small models of spaCy that know two names stand for large ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.domain.errors import SettingsError
from tests.privacy.presidio_kit import FAILS, FINDS, WAITS, install, needs_presidio

from .product import configuration, in_memory
from .test_privacy_files import SERVER

pytestmark = pytest.mark.slow

needs_presidio()

TEXT = "Ann Lee called about the Desk Lamp, see Peter O'Neil's letter."
GET = "from servers.files import get\nget()"


def recognized(*models: str) -> dict[str, Any]:
    return {"recognizer": {"models": models}}


def letters(folder: Path, text: str = TEXT, **privacy: Any) -> Path:
    """A server that answers with one text, protected as `privacy` says."""
    script = folder / "letters.py"
    script.write_text(SERVER)
    results = json.dumps({"get": [{"type": "text", "text": text}]})
    server = {"command": sys.executable, "args": [str(script), results, str(folder / "read.log")]}
    return configuration(folder, {"files": server}, privacy={"servers": {"files": "tokens"}, **privacy})


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    install(monkeypatch, tmp_path / "installed", "finds_two", FINDS)
    return "finds_two"


async def test_names_in_prose_become_tokens_if_a_recognizer_is_set(tmp_path: Path, finds: str) -> None:
    async with in_memory(letters(tmp_path, **recognized(finds))) as host:
        seen = (await host.run(GET)).value
    assert seen == "<NAME_1> called about the Desk Lamp, see <NAME_2>'s letter."


async def test_without_a_recognizer_names_in_prose_stay(tmp_path: Path) -> None:
    """The control of all others."""
    async with in_memory(letters(tmp_path)) as host:
        assert (await host.run(GET)).value == TEXT


async def test_a_result_is_withheld_if_the_recognizer_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(monkeypatch, tmp_path / "installed", "failing_model", FAILS)
    async with in_memory(letters(tmp_path, **recognized("failing_model"))) as host:
        refused = (await host.run(GET)).text
    assert "its result is withheld: it could not be searched for names" in refused
    assert "privacy.recognizer in upstream.yaml" in refused
    assert "Ann" not in refused + caplog.text


async def test_the_host_is_served_while_a_model_is_loaded_and_a_result_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = install(monkeypatch, tmp_path / "installed", "waiting_model", WAITS)
    answers: list[Any] = []
    async with in_memory(letters(tmp_path, **recognized("waiting_model"))) as host, anyio.create_task_group() as tasks:

        async def run() -> None:
            answers.append((await host.run(GET)).value)

        tasks.start_soon(run)
        assert await anyio.to_thread.run_sync(model.asked.wait, 30)
        assert (await host.run("1 + 1")).value == 2
        await host.until(lambda: (tmp_path / "state").exists())
        assert answers == []
        model.may_end.set()
    assert answers == ["<NAME_1> called about the Desk Lamp, see <NAME_2>'s letter."]


async def test_a_product_does_not_start_without_the_model_and_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        async with App.open(load(letters(tmp_path, recognizer={"models": ["no_such_model"]}))):
            pass
    assert str(refused.value) == (
        "privacy: the model no_such_model, which privacy.recognizer asks for, is not installed: "
        f"{sys.executable} -m spacy download no_such_model"
    )
