"""Real models of spaCy: they find names, are loaded from what is installed, and reach no network."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.findings import RecognizerFailed
from codemode_server.features.privacy.name_recognizer import NameRecognizer

from .spacy_kit import FAILS, MODEL, install, needs_spacy

pytestmark = pytest.mark.slow

needs_spacy()

LETTER = "Ann Lee called about the lamp in New York. Please tell Peter O'Neil's assistant, and write to Ann Lee."
_WATCHED = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "urllib.Request"):
        print("asked for", event)
        raise PermissionError(event)

sys.addaudithook(refuse)
import anyio
from codemode_server.features.privacy.name_recognizer import NameRecognizer
models = NameRecognizer(MODELS)
found = anyio.run(models.persons_in, ["Ann Lee: ann.lee@example.co.uk, see www.example.co.uk"])
print([len(it) for it in found])
"""


async def test_names_in_a_letter_are_found_without_places_and_with_one_confidence() -> None:
    found = (await Detector(None, NameRecognizer((MODEL,))).find({"body": LETTER})).found
    assert [(it.kind, it.value, it.confidence) for it in found] == [
        ("name", "Ann Lee", 0.85),
        ("name", "Peter O'Neil", 0.85),
        ("name", "Ann Lee", 0.85),
    ]


def watched(models: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own, since a hook stays."""
    code = _WATCHED.replace("MODELS", models)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_nothing_is_downloaded_and_no_address_is_looked_up() -> None:
    done = watched(repr((MODEL,)))
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr
    missing = watched("('no_such_model',)")
    assert "Can't find model 'no_such_model'" in missing.stderr
    assert missing.stdout == ""
    control = "__import__('socket').getaddrinfo('localhost', 1)"
    assert "asked for socket.getaddrinfo" in watched(control).stdout, "the control"


async def test_an_error_of_a_model_is_reported_without_the_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "failing_model", FAILS)
    with pytest.raises(RecognizerFailed) as failed:
        await NameRecognizer(("failing_model",)).persons_in(["Ann Lee came"])
    assert str(failed.value) == "KeyError"
    assert failed.value.__cause__ is None


async def test_a_cancelled_search_ends_after_its_batch() -> None:
    recognizer = NameRecognizer((MODEL,))
    await recognizer.load()
    texts = [f"{number}. {LETTER * 15}" for number in range(1_600)]  # two minutes
    began = time.monotonic()
    with anyio.move_on_after(0.1) as scope:
        await recognizer.persons_in(texts)
    assert scope.cancelled_caught
    assert time.monotonic() - began < 40
    assert await recognizer.persons_in(["Ann Lee came to the house."]) == [[(0, 7)]], "the control"
