"""What stubs tell of results, on twenty tasks for real servers: writes benchmarks/TYPES.md.

For each style of stub: how many of the keys that a task's program uses its types tell before the first call, and how
many tokens a model reads to know them. Where a style does not tell all, a model has to look: the cost of the program
that prints each tool's result is told beside it.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio
import bpe_openai

from benchmarks.result_types.exploring import Fate, Run, all_tasks, fate_of, misspelt, run_task
from benchmarks.result_types.keys import Use
from benchmarks.result_types.product import Product, product
from benchmarks.result_types.styles import STYLES, Stubs, Style, learned_in_steps
from scripts.npm import Unavailable

_ENCODING = bpe_openai.get_encoding("o200k_base")
REPORT = Path(__file__).parent.parent / "TYPES.md"
_HEAD = """\
# What stubs tell of results

`make bench-types`: twenty tasks on eleven real MCP servers, offline. The programs are in `result_types/tasks`, written
as a model writes them, and each was run in the sandbox.

- A *key* is one that a program asks a result for by name, at one place of it: found by running the program with results
  that note what they are asked. What the program's own SQL names (`SELECT name …`) needs no type and is counted apart.
  Keys of dicts that are said to have any keys are data and not counted.
- *none*: stubs without types of results. *declared*: types from `outputSchema` alone. *one call*: after one earlier
  call of each tool. *learned*: after a few of each (`result_types/calls.json`; where an argument such as
  `action` chooses what comes, each choice that matters is among them).
- *known*: keys that the types in the stubs tell before the task's first call. *read*: tokens (o200k) of the answer of
  `read_tool` for the task's tools.
- *look*: tokens of a program that only prints what each of its tools gives, and of the answer: what a model runs first
  if it is not told. Its arguments are as good as the task's own and the data here is small, so this is the least that
  looking costs; it is a turn of the conversation besides.
- A model *has to look* if a key is not told, or not even whether a result is a text, a list or a dict, or if the task
  goes by the layout of a text, which no type tells (04, 05, 06).
"""


@dataclass(frozen=True)
class Row:
    """One task."""

    run: Run
    stubs: dict[Style, Stubs]

    @property
    def uses(self) -> list[Use]:
        """The keys that the program can't know of itself."""
        return [use for use in self.run.tracked.uses if not use.is_in_query]

    @property
    def in_query(self) -> int:
        return len(self.run.tracked.uses) - len(self.uses)

    @property
    def present(self) -> list[Use]:
        """All keys that it might have used, by the same rule; keys that are data apart."""
        learned = self.stubs["learned"]
        return [it for it in self.run.tracked.present if not it.is_in_query and not learned.is_data(it)]

    def known(self, style: Style) -> int:
        return sum(self.stubs[style].tells(use) for use in self.uses)

    def known_present(self, style: Style) -> int:
        return sum(self.stubs[style].tells(key) for key in self.present)

    def read(self, style: Style) -> int:
        return tokens(self.stubs[style].text(self.run.task.tools))

    @property
    def look(self) -> int:
        return sum(map(tokens, self.run.exploring))

    def has_to_look(self, style: Style) -> bool:
        """Whether something that the program goes by is not told: a key, what kind of thing a result is at all, or how
        a text is laid out."""
        untold_form = any(not self.stubs[style].tells_form(tool) for tool in self.run.task.tools)
        return untold_form or self.run.task.takes_text_apart or self.known(style) < len(self.uses)

    def spent(self, style: Style) -> int:
        """Tokens until all keys are known."""
        return self.read(style) + (self.look if self.has_to_look(style) else 0)


@dataclass(frozen=True)
class Measured:
    """All that the report is made of."""

    rows: list[Row]
    fates: dict[Style, Counter[Fate]]
    """Of programs with a misspelt key."""


async def measure(folder: Path) -> Measured:
    async with product(folder / "tasks", learns=False) as running:
        runs = [await run_task(running, task) for task in all_tasks()]
        fates: dict[Style, Counter[Fate]] = {"declared": await _fates(running, runs)}
    async with product(folder / "learning") as running:
        stubs = await learned_in_steps(running)
        fates["learned"] = await _fates(running, runs)
    return Measured([Row(run, stubs) for run in runs], fates)


async def _fates(running: Product, runs: list[Run]) -> Counter[Fate]:
    return Counter([await fate_of(running, code) for run in runs for code in misspelt(run)])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(measure, Path(folder))
    parts = [*_head(), *_tasks(found.rows), *_totals(found.rows), *_mistakes(found.fates)]
    text = "\n".join(parts) + "\n"
    REPORT.write_text(text)
    print(text)


def tokens(text: str) -> int:
    return len(_ENCODING.encode(text))


def _head() -> list[str]:
    return [_HEAD]


def _tasks(rows: list[Row]) -> list[str]:
    head = "| task | keys | in SQL | " + " | ".join(f"known: {style}" for style in STYLES) + " | "
    head += " | ".join(f"read: {style}" for style in STYLES) + " | look |"
    lines = [head, "|---" * (3 + 2 * len(STYLES) + 1) + "|"]
    for row in rows:
        cells = [row.run.task.name[1:].replace("_", " "), len(row.uses), row.in_query or ""]
        cells += [row.known(style) for style in STYLES]
        cells += [f"{row.read(style):,}" for style in STYLES]
        lines.append("| " + " | ".join(map(str, [*cells, f"{row.look:,}"])) + " |")
    return [*lines, ""]


def _totals(rows: list[Row]) -> list[str]:
    keys = sum(len(row.uses) for row in rows)
    present = sum(len(row.present) for row in rows)
    lines = [
        f"## All {len(rows)} tasks: {keys} keys used, {present} that there were to use",
        "",
        "| style | known of the used | known of all | tasks that need a look | tokens read | read and looked |",
        "|---|---|---|---|---|---|",
    ]
    for style in STYLES:
        known = sum(row.known(style) for row in rows)
        looks = sum(row.has_to_look(style) for row in rows)
        read = sum(row.read(style) for row in rows)
        spent = sum(row.spent(style) for row in rows)
        known_present = sum(row.known_present(style) for row in rows)
        cells = [f"{known} ({known / keys:.0%})", f"{known_present} ({known_present / present:.0%})", looks]
        lines.append("| " + " | ".join(map(str, [style, *cells, f"{read:,}", f"{spent:,}"])) + " |")
    untold = [key for row in rows for key in row.present if not row.stubs["learned"].tells(key)]
    names = ", ".join(f"`{key}`" for key in dict.fromkeys(untold))
    return [*lines, "", f"Not told by the learned stubs: {names or 'none'}.", ""]


def _mistakes(fates: dict[Style, Counter[Fate]]) -> list[str]:
    lines = [
        "## Misspelt keys",
        "",
        "The same programs with one key misspelt at a time: whether the product refuses them before anything runs,",
        "warns beside what came of it, or says nothing of types (most of these then fail with a `KeyError`).",
        "",
        "| style | programs | refused | warned | nothing said |",
        "|---|---|---|---|---|",
    ]
    for style, fate in fates.items():
        lines.append(f"| {style} | {fate.total()} | {fate['refused']} | {fate['warned']} | {fate['unseen']} |")
    return [*lines, ""]


if __name__ == "__main__":
    try:
        main()
    except* Unavailable as reasons:
        sys.exit(f"bench-types: {reasons.exceptions[0]}")
