"""The recording of the demo in the documentation."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from scripts.recording import FILE, ROWS, Burst, picture, record

_SVG = "{http://www.w3.org/2000/svg}"


def _texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminal")
def test_what_a_command_writes_to_a_terminal_is_recorded() -> None:
    bursts = record([sys.executable, "-c", "import sys; print('a terminal' if sys.stdout.isatty() else 'a pipe')"])
    assert [line for burst in bursts for line in burst.lines][1:] == ["a terminal"]


def test_markup_in_the_output_is_text_in_the_picture() -> None:
    svg = picture([Burst(0, ["<script>alert(1)</script> & more"])], "/home/x")
    assert _texts(svg) == ["<script>alert(1)</script> & more"]


def test_the_folder_of_whoever_records_is_not_in_the_picture() -> None:
    assert _texts(picture([Burst(0, ["in /home/x/y"])], "/home/x/y")) == ["in ~/codemode-server"]


def test_the_picture_ends_with_the_last_rows() -> None:
    lines = [f"line {number}" for number in range(ROWS + 10)]
    *_, last = re.findall(
        r"translateY\((-?[\d.]+)px\)", re.findall(r"@keyframes scroll (.*)", picture([Burst(0, lines)], "/"))[0]
    )
    assert float(last) == -180.0


def test_the_picture_in_the_documentation_shows_the_whole_demo_and_no_folder_of_its_maker() -> None:
    texts = _texts(FILE.read_text(encoding="utf-8"))
    assert texts[0] == "$ make demo"
    assert texts[-1].strip().startswith("here:")
    assert not [text for text in texts if re.search(r"/(home|work|tmp|Users)/", text)]
