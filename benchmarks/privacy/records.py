"""Puts samples into records of fifteen formats, with labels of what is personal."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.privacy.negatives import Negatives
from benchmarks.privacy.samples import LANGUAGES, Sample, Samples

KINDS = ("email", "phone", "card", "iban", "national_id", "ip", "credential", "birth_date", "name", "address")
SYNTAX_KINDS = ("email", "phone", "card", "iban", "national_id", "ip", "credential")
"""Those with a checksum or a syntax, for which there is a goal."""
_ONLY_BY_FIELD = frozenset({"name", "birth_date"})
_SENTENCES = {
    "en": (
        "Please note {value} for the next delivery.",
        "We reached the customer under {value} yesterday.",
        "According to the file, {value} is current.",
    ),
    "de": (
        "Bitte notieren Sie {value} für die nächste Lieferung.",
        "Gestern wurde {value} geändert.",
        "Laut Akte gilt {value} weiterhin.",
    ),
    "fr": (
        "Merci de noter {value} pour la prochaine livraison.",
        "Hier, {value} a été modifié.",
        "Selon le dossier, {value} reste valable.",
    ),
    "es": (
        "Por favor, anote {value} para la próxima entrega.",
        "Ayer se cambió {value} en el sistema.",
        "Según el expediente, {value} sigue vigente.",
    ),
    "it": (
        "Si prega di annotare {value} per la prossima consegna.",
        "Ieri è stato modificato {value} nel sistema.",
        "Secondo la pratica, {value} è ancora valido.",
    ),
    "pt": (
        "Por favor, anote {value} para a próxima entrega.",
        "Ontem {value} foi alterado no sistema.",
        "Segundo o processo, {value} continua válido.",
    ),
}
_LABELLED = "{label}: {value}"


@dataclass(frozen=True, slots=True)
class Record:
    """One value as a tool may answer it, and what in it is personal."""

    value: Any
    format: str
    language: str
    truths: tuple[tuple[str, str], ...]
    """Kind and value."""
    negatives: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def records(count: int, seed: int) -> Iterator[Record]:
    """`count` records, the same ones for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        language = LANGUAGES[number % len(LANGUAGES)]
        name = tuple(_FORMATS)[number % len(_FORMATS)]
        samples, negatives = Samples(rng, language), Negatives(rng)
        rows = [_row(rng, samples, negatives, free=name in _FREE)]
        if name in _TABLES:
            rows = _same_columns(rng, rows[0], samples, negatives)
        flat = [sample for row in rows for sample in row]
        yield Record(
            _FORMATS[name](rng, rows, language),
            name,
            language,
            tuple((one.kind, one.value) for one in flat if one.kind),
            tuple(one.value for one in flat if not one.kind),
        )


def _row(rng: random.Random, samples: Samples, negatives: Negatives, free: bool) -> list[Sample]:
    kinds = [kind for kind in KINDS if not (free and kind in _ONLY_BY_FIELD)]
    row = [samples.personal(kind) for kind in rng.sample(kinds, rng.randrange(1, 4))]
    row += [negatives.any() for _ in range(rng.randrange(1, 4))]
    rng.shuffle(row)
    unique = {sample.label: sample for sample in row}
    return list(unique.values())


def _same_columns(
    rng: random.Random, first: list[Sample], samples: Samples, negatives: Negatives
) -> list[list[Sample]]:
    """Further rows with the columns of the first one: values of the same kinds under the same names."""
    rows = [first]
    for _ in range(2):
        row = []
        for column in first:
            for _ in range(400):
                other = samples.personal(column.kind) if column.kind else negatives.any()
                if other.label == column.label:
                    break
            else:
                other = column
            row.append(other)
        rows.append(row)
    return rows


def _nested(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    fields = {one.label: one.value for one in rows[0]}
    return {"data": {"entry": {"id": rng.randrange(10_000), "details": fields, "tags": ["a", "b"]}}, "ok": True}


def _list(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    return [{one.label: one.value for one in row} for row in rows]


def _json_text(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    return json.dumps({one.label: one.value for one in rows[0]}, ensure_ascii=False, indent=rng.choice((None, 2)))


def _csv(separator: str) -> Callable[[random.Random, list[list[Sample]], str], Any]:
    def made(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=separator, lineterminator="\n")
        writer.writerow(["no", *(one.label for one in rows[0])])
        for number, row in enumerate(rows):
            writer.writerow([number, *(one.value for one in row)])
        return out.getvalue()

    return made


def _log(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    pairs = " ".join(f'{one.label}="{one.value}"' for one in rows[0])
    return (
        f"2026-03-{rng.randrange(10, 29)}T10:2{rng.randrange(9)}:11.48{rng.randrange(9)}Z INFO [worker-3] saved {pairs}"
    )


def _access_log(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    return "\n".join(
        f"[{rng.randrange(10, 28)}/Mar/2026:10:21:{rng.randrange(10, 59)} +0000]"
        f" {one.label} {one.value} 200 {rng.randrange(9_999)}"
        for one in rows[0]
    )


def _prose(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    said = []
    for one in rows[0]:
        sentence = rng.choice(_SENTENCES[language])
        # Half of all values are announced by their name; what only a word tells from other numbers always is.
        named = (one.kind and one.value.isdigit()) or rng.random() < 0.5 or _is_national_phone(one)
        said.append(sentence.format(value=f"{one.label.replace('_', ' ')} {one.value}" if named else one.value))
    return " ".join(said)


def _is_national_phone(sample: Sample) -> bool:
    return sample.kind == "phone" and not sample.value.startswith("+")


def _mail(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    lines = [_LABELLED.format(label=one.label.replace("_", " ").capitalize(), value=one.value) for one in rows[0]]
    return "Hello,\n\n" + "\n".join(lines) + "\n\n-- \nSent from my phone"


def _markdown(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    header = [one.label for one in rows[0]]
    table = [header, ["---"] * len(header), *([one.value for one in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n"


def _yaml(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    return "entry:\n" + "".join(f"  {one.label}: {one.value}\n" for one in rows[0])


def _html(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    header = "".join(f"<th>{one.label}</th>" for one in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{one.value}</td>" for one in row) + "</tr>" for row in rows)
    return f"<table><tr>{header}</tr>{body}</table>"


def _xml(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    fields = "".join(f"<{one.label}>{one.value}</{one.label}>" for one in rows[0])
    return f"<entries><entry>{fields}</entry></entries>"


def _drawn(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    """As psql does."""
    lines = [" | ".join(one.label for one in rows[0]), "-+-".join("-" * len(one.label) for one in rows[0])]
    return "\n".join([*lines, *(" | ".join(one.value for one in row) for row in rows), f"({len(rows)} rows)"])


def _indexed(rng: random.Random, rows: list[list[Sample]], language: str) -> Any:
    """As pandas does."""
    return {
        one.label: {str(at): row[number].value for at, row in enumerate(rows)} for number, one in enumerate(rows[0])
    }


_FORMATS: dict[str, Callable[[random.Random, list[list[Sample]], str], Any]] = {
    "nested JSON": _nested,
    "JSON rows": _list,
    "JSON in text": _json_text,
    "CSV": _csv(","),
    "CSV with semicolons": _csv(";"),
    "log of pairs": _log,
    "access log": _access_log,
    "prose": _prose,
    "mail": _mail,
    "Markdown table": _markdown,
    "YAML": _yaml,
    "HTML table": _html,
    "XML": _xml,
    "table of psql": _drawn,
    "columns by index": _indexed,
}
_FREE = frozenset({"prose", "access log"})
"""Formats without fields, in which names and dates of birth are not labelled as such."""
_TABLES = frozenset(
    {"CSV", "CSV with semicolons", "Markdown table", "JSON rows", "HTML table", "table of psql", "columns by index"}
)
