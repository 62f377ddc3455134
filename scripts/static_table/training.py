"""Two trainings of the table: English words after the teacher, then the words of other languages after the English.

The first begins with the teacher's vector of each word alone, its 384 numbers turned to the `DIMENSIONS` that matter
most and shrunk for common words (as in model2vec, https://github.com/MinishLab/model2vec). Then three losses at once:

- a text's vector is the teacher's (cosine);
- texts are as near to each other as they are for the teacher (distributions over a batch, Kullback and Leibler);
- of two texts that mean the same each finds the other in a batch (InfoNCE), with words missing, common words added, and
  phrases around one of them as people who ask put them. This is what makes common words light.

In the second only words of other languages move: a description of a package and its translation get one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cosine_similarity, cross_entropy, embedding_bag, kl_div, normalize

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

DIMENSIONS = 256
_TEMPERATURE = 0.05
_BATCH = 1024
_SMOOTHING = 3e-4
"""How rare a word is whose start is halved."""

_ASKING = """
    I want to|I need to|Can you|Please|Could you please help me|I'm working on a project and I need to|How do I|Help me
    I would like you to|Give me|What is the best way to|Show me|My friend asked me to|For my company I have to|Let's
    Find something to|I am planning something with my family,|is there a tool to|for my team|we are looking for
    I'm curious about|Tell me about|Provide me with
"""
ASKING = [phrase for line in _ASKING.strip().splitlines() for phrase in line.strip().split("|")]
"""How people ask; none of it tells what for."""


@dataclass(frozen=True)
class Bags:
    """The tokens of many texts, one text behind the other."""

    tokens: Ints
    starts: Ints

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Bags:
        starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
        return cls(np.concatenate([np.asarray(text, np.int64) for text in texts]), starts)

    def some(self, chosen: Ints) -> tuple[Ints, Ints]:
        """The tokens of the chosen texts, and beside each the row that it is in."""
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        rows = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.tokens[np.repeat(self.starts[chosen], lengths) + within], rows


def lost(tokens: Ints, rows: Ints, share: float, chance: np.random.Generator) -> tuple[Ints, Ints]:
    """Without a share of them."""
    kept = chance.random(len(tokens)) > share
    return tokens[kept], rows[kept]


def summed(weights: Any, tokens: Ints, rows: Ints, count: int) -> Any:
    """A row of sums for each text."""
    starts = torch.from_numpy(np.searchsorted(rows, np.arange(count)))
    return embedding_bag(torch.from_numpy(tokens), weights, starts, mode="sum", sparse=weights.requires_grad)


def frequencies(ranks: Sequence[int], texts: Bags) -> NDArray[np.float64]:
    """How common each token is: by Zipf's law from its rank in general English, or as the texts have it."""
    seen = np.bincount(texts.tokens, minlength=len(ranks)) / len(texts.tokens)
    return np.maximum(1 / (np.asarray(ranks) + 2.7) / 10, seen / 2)


def train_english(
    words: Floats,
    common: NDArray[np.float64],
    texts: Bags,
    taught: Floats,
    pairs: tuple[Bags, Bags],
    asking: Bags,
    *,
    epochs: int = 18,
    rate: float = 4e-3,
) -> Floats:
    """`words`: the teacher's vectors of the tokens; `taught`: those of the texts."""
    torch.manual_seed(0)
    chance = np.random.default_rng(0)
    turn = np.linalg.svd(taught[:30_000], full_matrices=False)[2][:DIMENSIONS].T
    start = (words @ turn) * (_SMOOTHING / (_SMOOTHING + common))[:, None]
    start /= np.linalg.norm(start, axis=1).mean()
    weights = torch.nn.Parameter(torch.from_numpy(start.astype(np.float32)))
    optimizer = torch.optim.SparseAdam([weights], lr=rate)
    aims, whole = torch.from_numpy(taught @ turn), torch.from_numpy(taught)
    heaped = np.cumsum(common**0.75)
    known = np.flatnonzero(np.diff(texts.starts))
    steps = len(known) // _BATCH
    for epoch in range(epochs):
        order = chance.permutation(known)
        total = 0.0
        for step in range(steps):
            done = (epoch + step / steps) / epochs
            optimizer.param_groups[0]["lr"] = rate * min(1, (epoch * steps + step + 1) / 30) * (1.02 - done)
            chosen = order[step * _BATCH :][:_BATCH]
            vectors = normalize(summed(weights, *lost(*texts.some(chosen), 0.05, chance), len(chosen)), dim=1, eps=1e-6)
            loss = (1 - cosine_similarity(vectors, aims[chosen])).mean() + _nearness_loss(vectors, whole[chosen])
            loss = loss + _pair_loss(weights, pairs, asking, heaped / heaped[-1], chance)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"English, epoch {epoch + 1} of {epochs}: {total / steps:.3f}", flush=True)
    return np.asarray(weights.detach().numpy())


def _nearness_loss(vectors: Any, taught: Any) -> Any:
    itself = torch.eye(len(vectors), dtype=torch.bool)
    ours = (vectors @ vectors.T / _TEMPERATURE).masked_fill(itself, -1e4)
    theirs = (taught @ taught.T / _TEMPERATURE).masked_fill(itself, -1e4)
    return kl_div(ours.log_softmax(1), theirs.softmax(1), reduction="batchmean")


def _pair_loss(
    weights: Any, pairs: tuple[Bags, Bags], asking: Bags, heaped: NDArray[np.float64], chance: np.random.Generator
) -> Any:
    chosen = chance.integers(0, len(pairs[0].starts) - 1, _BATCH)
    asked = np.flatnonzero(chance.random(_BATCH) < 0.4)
    phrases, of_phrase = asking.some(chance.integers(0, len(asking.starts) - 1, len(asked)))
    noise_rows = np.repeat(np.arange(_BATCH), chance.poisson(4 * chance.random(_BATCH)))
    noise = np.searchsorted(heaped, chance.random(len(noise_rows)))
    left, left_rows = lost(*pairs[0].some(chosen), 0.25, chance)
    left = np.concatenate([left, phrases, noise])
    left_rows = np.concatenate([left_rows, asked[of_phrase], noise_rows])
    order = np.argsort(left_rows, kind="stable")
    one = normalize(summed(weights, left[order], left_rows[order], _BATCH), dim=1, eps=1e-6)
    other = normalize(summed(weights, *lost(*pairs[1].some(chosen), 0.125, chance), _BATCH), dim=1, eps=1e-6)
    return _finding_loss(one @ other.T / _TEMPERATURE)


def _finding_loss(likeness: Any) -> Any:
    own = torch.arange(len(likeness))
    return (cross_entropy(likeness, own) + cross_entropy(likeness.T, own)) / 2


def train_others(
    english: Floats, count: int, texts: Bags, aims: Floats, *, epochs: int = 3, rate: float = 5e-3
) -> Floats:
    """The vectors of `count` further tokens, from texts in which they stand and the vectors of their translations."""
    torch.manual_seed(0)
    chance = np.random.default_rng(0)
    first = len(english)
    start = np.zeros((count, DIMENSIONS), np.float32)
    seen = np.zeros(count, np.float32)
    rows = np.repeat(np.arange(len(aims)), np.diff(texts.starts))
    others = texts.tokens >= first
    np.add.at(start, texts.tokens[others] - first, (aims - aims.mean(0))[rows[others]])
    np.add.at(seen, texts.tokens[others] - first, 1)
    weights = torch.nn.Parameter(torch.from_numpy(0.8 * start / np.maximum(seen, 1)[:, None]))
    optimizer = torch.optim.SparseAdam([weights], lr=rate)
    fixed, wanted = torch.from_numpy(english), torch.from_numpy(aims)
    known = np.unique(rows[others])
    steps = len(known) // _BATCH
    for epoch in range(epochs):
        order = chance.permutation(known)
        total = 0.0
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = rate * (1.02 - (epoch + step / steps) / epochs)
            chosen = order[step * _BATCH :][:_BATCH]
            tokens, of_text = lost(*texts.some(chosen), 0.15, chance)
            new = tokens >= first
            sums = summed(weights, tokens[new] - first, of_text[new], len(chosen))
            sums = sums + summed(fixed, tokens[~new], of_text[~new], len(chosen))
            vectors = normalize(sums, dim=1, eps=1e-6)
            near = vectors @ wanted[chosen].T
            loss = (1 - near.diagonal()).mean() + 0.5 * cross_entropy(near / _TEMPERATURE, torch.arange(len(chosen)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"other languages, epoch {epoch + 1} of {epochs}: {total / steps:.3f}", flush=True)
    return np.asarray(weights.detach().numpy())
