"""Searches labelled records for personal data and writes benchmarks/PRIVACY.md: `make bench-privacy`.

    python -m benchmarks.privacy [--print]

`made.jsonl` was written by rule from a seed: check digits by stdnum, phone numbers by libphonenumber, the rest put
together from lists of words. `unseen.jsonl` has result formats of published servers with values from lists of its own;
the detector was not tuned on it: a change that is made because of these records needs new ones. `<cut>` stands within
made-up credentials, so that scanners for secrets don't take them for real ones.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import measured_by, table
from codemode_server.features.privacy.detector import Detector

HERE = Path(__file__).parent
REPORT = HERE.parent / "PRIVACY.md"
KINDS = ("email", "phone", "card", "iban", "national_id", "ip", "credential", "birth_date", "name", "address")
Found = tuple[str, str]
"""Kind and value."""
_OTHER = re.compile(r"[\W_]+")


@dataclass
class Scores:
    """Counts by kind, and what was confused."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    confusions: dict[Found, list[str]] = field(default_factory=dict)
    """What it was (a kind, or `nothing`), and what it was taken for (a kind, or `missed`): the values."""

    def add(self, truths: Iterable[Found], found: Iterable[Found]) -> None:
        """Compare with the labels. A finding is right if it has the kind and covers the value: two characters more or
        fewer, separators aside, are taken as the same."""
        labels = [(kind, value, _plain(value)) for kind, value in truths]
        left, rest = list(labels), []
        for kind, value in found:
            plain = _plain(value)
            match = next((truth for truth in left if truth[0] == kind and _same(truth[2], plain)), None)
            if match:
                left.remove(match)
                self.right[kind] += 1
            else:
                rest.append((kind, value, plain))
        for kind, value, plain in rest:
            if any(was == kind and plain in truth for was, _, truth in labels):
                continue  # a further part of a value that is counted as found or missed
            self.wrong[kind] += 1
            was = next((was for was, _, truth in labels if plain in truth or truth in plain), "nothing")
            self.confusions.setdefault((was, kind), []).append(value)
        for kind, value, _ in left:
            self.missed[kind] += 1
            self.confusions.setdefault((kind, "missed"), []).append(value)

    def cells(self, kind: str) -> list[str]:
        """Number of values, recall and precision."""
        right, wrong, values = self.right[kind], self.wrong[kind], self.right[kind] + self.missed[kind]
        if not values:
            return ["0", "–", f"– ({wrong} wrong)"]
        return [f"{values:,}", f"{right / values:.3f}", f"{right / max(1, right + wrong):.3f}"]


def _plain(text: str) -> str:
    return _OTHER.sub("", text).casefold()


def _same(truth: str, found: str) -> bool:
    return (truth in found or found in truth) and abs(len(truth) - len(found)) <= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print")
    options = parser.parse_args()
    text = _report()
    if not options.only_print:
        REPORT.write_text(text)
    sys.stdout.write(text)


def _report() -> str:
    made, unseen = _records("made"), _records("unseen")
    old, seconds = _scored(made)
    new, _ = _scored(unseen)
    characters = sum(len(json.dumps(record["value"])) for record in made)
    heads = ["kind", "made: values", "recall", "precision", "unseen: values", "recall", "precision"]
    errors = []
    for title, scores in (("made", old), ("unseen", new)):
        for (was, taken_for), values in sorted(scores.confusions.items(), key=lambda pair: -len(pair[1]))[:8]:
            shown = ", ".join(f"`{value[:50]}`" for value in list(dict.fromkeys(values))[:3])
            errors.append(f"- {title}: {was} taken for {taken_for}, {len(values)} times: {shown}".replace("\n", " "))
    return f"""\
# Detection of personal data

{measured_by("make bench-privacy")}
A finding is right if it has the kind and covers the value but for two characters, separators aside.

- **made**: {len(made):,} records in six languages and seven formats, by rules like those that the detector was developed with.
- **unseen**: {len(unseen)} records in result formats of published servers, with values from lists of their own. The detector was not tuned on them.

Searching the made records took {1e9 * seconds / characters:,.0f} ms of processor time for a million characters.

{table(heads, [[kind, *old.cells(kind), *new.cells(kind)] for kind in KINDS])}
Most frequent errors:

{chr(10).join(errors)}
"""  # noqa: E501


def _records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().replace("<cut>", "").splitlines()]


def _scored(records: Iterable[dict[str, Any]]) -> tuple[Scores, float]:
    """The scores, and the seconds of processor time."""
    scores, detector, seconds = Scores(), Detector(), 0.0
    for record in records:
        began = time.process_time()
        found = detector.in_value(record["value"]).found
        seconds += time.process_time() - began
        scores.add(record["truths"], [(str(one.kind), one.value) for one in found])
    return scores, seconds


if __name__ == "__main__":
    main()
