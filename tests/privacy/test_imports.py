"""Without the section `privacy` a product imports nothing of the detection, nor its libraries."""

from __future__ import annotations

import subprocess
import sys

from .spacy_kit import MODEL, needs_spacy

HEAVY = (
    "codemode_server.features.privacy.detector",
    "codemode_server.features.privacy.known_texts",
    "phonenumbers",
    "stdnum",
    "spacy",
)


def imported_by(code: str) -> set[str]:
    show = f"{code}\nimport sys\nprint(*[it for it in {HEAVY!r} if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_product_imports_nothing_of_the_detection_at_its_start() -> None:
    assert imported_by("import codemode_server.app, codemode_server.startup.serve") == set()
    used = "from codemode_server.features.privacy.known_texts import KnownTexts\nKnownTexts()"
    assert imported_by(used) == {HEAVY[1]}, "the control"


def test_a_search_imports_no_recognizer_of_names_that_is_not_set() -> None:
    search = (
        "from codemode_server.features.privacy.detector import Detector\nDetector().in_value({'note': 'Ann Lee came'})"
    )
    assert "spacy" not in imported_by(search)
    needs_spacy()
    load = (
        "import anyio\nfrom codemode_server.features.privacy.name_recognizer import NameRecognizer\n"
        f"anyio.run(NameRecognizer(({MODEL!r},)).load)"
    )
    assert "spacy" in imported_by(load), "the control"
