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
import platform
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.privacy.scoring import Record, Scores
from codemode_server.features.privacy.detector import Detector

HERE = Path(__file__).parent
REPORT = HERE.parent / "PRIVACY.md"
KINDS = ("email", "phone", "card", "iban", "national_id", "ip", "credential", "birth_date", "name", "address")


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
    old, seconds, characters = _scored(made)
    new, _, _ = _scored(unseen)
    lines = [
        "# Detection of personal data",
        "",
        f"`make bench-privacy` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}."
        " A finding is right if it has the kind and covers the value but for two characters, separators aside.",
        "",
        f"- **made**: {len(made):,} records in six languages and seven formats, by rules like those that the detector"
        " was developed with.",
        f"- **unseen**: {len(unseen)} records in result formats of published servers, with values from lists of their"
        " own. The detector was not tuned on them.",
        "",
        f"Searching the made records took {1000 * seconds / (characters / 1_000_000):,.0f} ms of processor time for a"
        " million characters.",
        "",
        "| kind | made: values | recall | precision | unseen: values | recall | precision |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {kind} | {_cells(old, kind)} | {_cells(new, kind)} |" for kind in KINDS]
    lines += ["", "Most frequent errors:", ""]
    for title, scores in (("made", old), ("unseen", new)):
        for (was, taken_for), number in scores.confusions.most_common(8):
            shown = ", ".join(f"`{it[:50]}`" for it in scores.examples[was, taken_for])
            lines.append(f"- {title}: {was} taken for {taken_for}, {number} times: {shown}".replace("\n", " "))
    return "\n".join(lines) + "\n"


def _records(name: str) -> list[Record]:
    lines = (HERE / f"{name}.jsonl").read_text().replace("<cut>", "").splitlines()
    read = map(json.loads, lines)
    return [Record(one["value"], tuple((kind, value) for kind, value in one["truths"])) for one in read]


def _scored(made: Iterable[Record]) -> tuple[Scores, float, int]:
    """The scores, the seconds of processor time, and the characters that were searched."""
    scores, detector, seconds, characters = Scores(), Detector(), 0.0, 0
    for record in made:
        began = time.process_time()
        found = detector.in_value(record.value).found
        seconds += time.process_time() - began
        characters += len(json.dumps(record.value))
        scores.add(record, [(str(one.kind), one.value) for one in found])
    return scores, seconds, characters


def _cells(scores: Scores, kind: str) -> str:
    score = scores.of(kind)
    values = score.right + score.missed
    if not values:
        return f"0 | – | – ({score.wrong} wrong)"
    return f"{values:,} | {score.recall:.3f} | {score.precision:.3f}"


if __name__ == "__main__":
    main()
