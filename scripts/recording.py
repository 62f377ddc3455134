"""Renews the recording of `make demo` in the documentation: an SVG that plays in a browser, without a script.

    python -m scripts.recording [FILE]

The demo runs in a pseudo-terminal, and what it writes is kept with its times. A picture that nobody can stop must
leave time to read: lines that came together are shown a few at a time, and waits are shortened. Where the reader's
system asks for less motion, the picture shows the end.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from scripts.demo import ROOT

FILE = ROOT / "docs" / "images" / "demo.svg"
COMMAND = "make demo"
COLUMNS, ROWS = 116, 32
LINE, CHARACTER, MARGIN = 18.0, 7.83, 16.0
"""Pixels: the height of a line, the width of a character of 13 pixels, the border."""
TOGETHER_SECONDS = 0.1
"""Lines with less than this between them came together."""
SHOWN_ROWS, SECONDS_PER_ROW = 8, 0.2
"""Rows that appear at a time, and how long they stay before the next ones."""
LONGEST_WAIT, LAST = 2.5, 8.0
"""Seconds: of a wait of the demo, and of the end before the picture begins again."""
_BOLD = re.compile(r"\x1b\[1m(.*?)\x1b\[0m")
_STYLE = """
    text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }
    .bold { font-weight: 700; fill: #ffffff }
    .back { fill: #161b22 }
"""


@dataclass(frozen=True, slots=True)
class Burst:
    """Lines that came together."""

    at: float
    """Seconds since the start."""
    lines: list[str]


def record(command: list[str]) -> list[Burst]:
    """What `command` writes to a terminal.

    Raises:
        subprocess.CalledProcessError: if it fails.
    """
    bursts = [Burst(0.0, [f"\x1b[1m$ {COMMAND}\x1b[0m"])]
    ours, its = pty.openpty()
    began, last, text = time.monotonic(), float("-inf"), ""
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.STDOUT) as demo:
        os.close(its)
        while piece := _read(ours):
            now = time.monotonic() - began
            *lines, text = (text + piece).replace("\r", "").split("\n")
            if now - last > TOGETHER_SECONDS:
                bursts.append(Burst(now, []))
            bursts[-1].lines.extend(lines)
            last = now
    os.close(ours)
    if demo.returncode:
        raise subprocess.CalledProcessError(demo.returncode, command)
    return [burst for burst in bursts if burst.lines]


def _read(descriptor: int) -> str:
    """The next output; none once the other end is closed, which Linux reports as an error."""
    select.select([descriptor], [], [])
    try:
        return os.read(descriptor, 65_536).decode("utf-8", "replace")
    except OSError:
        return ""


def picture(bursts: list[Burst], home: str) -> str:
    """The SVG; `home` is written as ~/codemode-server."""
    rows: list[str] = []
    shown: list[tuple[float, int]] = []  # from when, how many rows
    clock = 0.0
    for burst, following in pairwise([*bursts, Burst(bursts[-1].at, [])]):
        until = clock + min(following.at - burst.at, LONGEST_WAIT)
        new = [row for line in burst.lines for row in _wrapped(line.replace(home, "~/codemode-server"))]
        for start in range(0, len(new), SHOWN_ROWS):
            piece = new[start : start + SHOWN_ROWS]
            rows += piece
            shown.append((clock, len(rows)))
            clock += SECONDS_PER_ROW * len(piece)
        clock = max(clock, until)
    clock += LAST
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    scrolled = [(at, max(0, count - ROWS)) for at, count in shown]
    hidden = [(at, min(ROWS, count)) for at, count in shown]
    texts = "\n".join(
        f'      <text x="{MARGIN:g}" y="{MARGIN + LINE * (number + 0.75):g}">{_marked(row)}</text>'
        for number, row in enumerate(rows)
        if row.strip()
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="title">
  <title id="title">A terminal runs {COMMAND}: one program calls three MCP servers</title>
  <style>{_STYLE}    .rows {{ transform: translateY({-LINE * scrolled[-1][1]:g}px) }}
    .cover {{ transform: translateY({LINE * hidden[-1][1]:g}px) }}
    @media (prefers-reduced-motion: no-preference) {{
      .rows {{ animation: scroll {clock:g}s step-end infinite }}
      .cover {{ animation: show {clock:g}s step-end infinite }}
    }}
    @keyframes scroll {{ {_frames(scrolled, clock, -LINE)} }}
    @keyframes show {{ {_frames(hidden, clock, LINE)} }}
  </style>
  <clipPath id="screen"><rect width="{width:g}" height="{height - MARGIN:g}"/></clipPath>
  <rect class="back" width="{width:g}" height="{height:g}" rx="8"/>
  <g clip-path="url(#screen)">
    <g class="rows">
{texts}
    </g>
    <rect class="back cover" y="{MARGIN:g}" width="{width:g}" height="{height - 2 * MARGIN:g}"/>
    <rect class="back" width="{width:g}" height="{MARGIN:g}" rx="8"/>
  </g>
</svg>
"""


def _frames(steps: list[tuple[float, int]], clock: float, unit: float) -> str:
    return " ".join(f"{100 * at / clock:.2f}% {{ transform: translateY({unit * count:g}px) }}" for at, count in steps)


def _wrapped(line: str) -> list[str]:
    """The rows of a line; a bold one is a heading, which fits."""
    if _BOLD.search(line):
        return [line]
    return [line[start : start + COLUMNS] for start in range(0, max(1, len(line)), COLUMNS)]


def _marked(row: str) -> str:
    return _BOLD.sub(r'<tspan class="bold">\1</tspan>', escape(row, quote=False))


def main(file: Path) -> None:
    file.write_text(picture(record([sys.executable, "-m", "scripts.demo"]), str(ROOT)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
