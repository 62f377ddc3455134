"""Without the section `privacy` a product imports nothing of the detection, nor its libraries."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "codemode_server.privacy.detector",
    "codemode_server.privacy.originals",
    "phonenumbers",
    "stdnum",
)


def imported_by(code: str) -> set[str]:
    show = f"{code}\nimport sys\nprint(*[it for it in {HEAVY!r} if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_product_imports_nothing_of_the_detection_at_its_start() -> None:
    assert imported_by("import codemode_server.app, codemode_server.serve") == set()
    used = "from codemode_server.privacy.token_map import KnownTexts\nKnownTexts()"
    assert imported_by(used) == {HEAVY[1]}, "the control"
