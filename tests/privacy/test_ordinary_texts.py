"""Ten thousand originals turn nothing in ordinary texts into tokens, and cost little."""

from __future__ import annotations

import base64
import gc
import json
import random
import time
from pathlib import Path

import pytest

from benchmarks.privacy.records import records
from codemode_server.privacy.originals import Originals

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNT = 10_000
SHARED = next((it / "shared" for it in ROOT.parents[:2] if (it / "shared" / "toolsets").is_dir()), None)
"""Where this project was made, it is beside it."""
MEGABYTE = 1_000_000
LOG_LINE = "2026-03-12T10:24:11.481Z INFO [worker-3] request GET /api/v1/items?page=3 took 12 ms, the session went on\n"


def made(count: int) -> dict[str, str]:
    """Different values by their tokens."""
    values: dict[str, str] = {}
    for record in records(count, seed=17):
        for kind, value in record.truths:
            if len(values) < count:
                values.setdefault(value, f"<{kind.upper()}_{len(values) + 1}>")
    return {token: value for value, token in values.items()}


@pytest.mark.parametrize(
    ("name", "text", "is_found"),
    [
        ("tools", "the tools are here", False),
        ("tools", "s l o o t, t.o.o.l.s", False),
        ("not permitted", "it is not permitted", False),
        ("baker", "a baker", False),
        ("the baker", "a;the baker;b", True),
        ("baker", "a\nbaker\nb", True),
        ("baker", '{"a": "baker"}', True),
        ("baker", '{"baker": "a"}', False),
        ("Baker", "for Baker, by mail", True),
        ("anna", "for anna, by mail", True),
        ("anna smith", "for anna smith, by mail", True),
        ("kowalczyk", "for kowalczyk, by mail", True),
    ],
)
def test_ordinary_words_in_small_letters_are_a_name_only_as_a_whole_value(name: str, text: str, is_found: bool) -> None:
    """But for given names, and for words that are not ordinary. Words that are no common names count less."""
    originals = Originals()
    originals.add(name, "<NAME_1>")
    assert bool(originals.spans(text)) is is_found


@pytest.fixture(scope="module")
def values() -> dict[str, str]:
    return made(COUNT)


@pytest.fixture(scope="module")
def originals(values: dict[str, str]) -> Originals:
    known = Originals()
    for token, value in values.items():
        known.add(value, token)
    return known


def found(originals: Originals, values: dict[str, str], files: list[Path]) -> list[tuple[str, str, str]]:
    """File, what is found there, and what it is taken for."""
    return [
        (file.name, text[start:end], values[token])
        for file in files
        for text in [file.read_text("utf-8", "replace")]
        for start, end, token in originals.spans(text)
    ]


def test_the_documents_of_the_project_are_left_as_they_are(originals: Originals, values: dict[str, str]) -> None:
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert len(values) == COUNT
    assert len(files) > 20
    assert found(originals, values, files) == []


def test_its_programs_are_left_as_they_are(originals: Originals, values: dict[str, str]) -> None:
    """Except for those about personal data, which name examples of it."""
    files = [*(ROOT / "codemode_server").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    files = [it for it in files if it.parent.name != "privacy"]
    assert len(files) > 300
    assert found(originals, values, files) == []


def test_descriptions_of_tools_are_left_as_they_are(originals: Originals, values: dict[str, str]) -> None:
    if SHARED is None:
        pytest.skip("there are no descriptions of tools beside the project")
    files = [*(SHARED / "toolsets").rglob("*.json"), SHARED / "programs.py"]
    assert found(originals, values, files) == []


def test_every_value_is_found_in_a_text_of_all(originals: Originals, values: dict[str, str]) -> None:
    """The control: the search above is the one that finds."""
    text = "\n".join(values.values())
    covered = bytearray(len(text))
    for start, end, _ in originals.spans(text):
        covered[start:end] = b"\1" * (end - start)
    missed, place = [], 0
    for value in values.values():
        if not all(covered[place : place + len(value)]):
            missed.append(value)
        place += len(value) + 1
    assert missed == []


def seconds(originals: Originals, text: str) -> float:
    """Time of the processor for one search, the least of three."""
    times = []
    gc.collect()
    for _ in range(3):
        began = time.process_time()
        originals.spans(text)
        times.append(time.process_time() - began)
    return min(times)


def worst_cases() -> dict[str, str]:
    chance = random.Random(3)
    return {
        "escapes of URLs": "%41" * (MEGABYTE // 3),
        "entities": "&amp;" * (MEGABYTE // 5),
        "line breaks as JSON has them": r"\n" * (MEGABYTE // 2),
        "code points": r"\u0061" * (MEGABYTE // 6),
        "backslashes": "\\" * MEGABYTE,
        "base64 of anything": base64.b64encode(chance.randbytes(MEGABYTE * 3 // 4)).decode(),
        "base64 of a text": base64.b64encode((LOG_LINE * 10_000)[: MEGABYTE * 3 // 4].encode()).decode(),
        "hexadecimal digits": chance.randbytes(MEGABYTE // 2).hex(),
        "digits": "".join(chance.choices("0123456789", k=MEGABYTE)),
        "a list of digits": ",".join(chance.choices("0123456789", k=MEGABYTE // 2)),
        "one letter": "a" * MEGABYTE,
        "letters on one line": "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=MEGABYTE)),
        "a common domain": "someone@example.org " * (MEGABYTE // 20),
    }


@pytest.mark.slow
def test_no_text_costs_much_more_than_another(originals: Originals) -> None:
    """Processor time, which other work on the machine changes by half: bounds of four times and twice the goal."""
    normal = seconds(originals, LOG_LINE * (MEGABYTE // len(LOG_LINE)))
    assert normal < 0.2
    costs = {name: seconds(originals, text) / max(normal, 0.05) for name, text in worst_cases().items()}
    assert {name: round(cost, 1) for name, cost in costs.items() if cost > 4} == {}


@pytest.mark.slow
def test_the_cost_is_linear_in_the_text_and_hardly_depends_on_the_number_of_originals(originals: Originals) -> None:
    rows = [{"id": number, "title": "The lamp in the hall", "body": LOG_LINE} for number in range(4_000)]
    text = json.dumps(rows)
    small = Originals()
    for token, value in made(500).items():
        small.add(value, token)
    assert seconds(originals, text) < 2.5 * max(seconds(small, text), 0.02)
    assert seconds(originals, text * 4) < 8 * max(seconds(originals, text), 0.02)


@pytest.mark.slow
def test_one_more_original_costs_little_whatever_number_there_is(values: dict[str, str]) -> None:
    known = Originals()
    began = time.process_time()
    for token, value in values.items():
        known.add(value, token)
    assert time.process_time() - began < 3, "the goal is 1 s"
    began = time.process_time()
    for number in range(100):
        known.add(f"brontok{number}.jalveson@example.org", f"<EMAIL_{20_000 + number}>")
        assert known.spans(f"to brontok{number}.jalveson@example.org")
    assert time.process_time() - began < 0.5
