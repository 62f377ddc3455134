"""Verdicts of a guardrail: a closed set of values, each but `Pass` with a reason for the person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pass:
    """The guardrail has nothing against it."""


@dataclass(frozen=True, slots=True)
class Change:
    """It passes with another value. The guardrails after this one, and then the permissions, see the new value."""

    value: Any
    """The whole value in place of the old one, in the same form."""
    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person has to approve it first."""

    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """It is refused."""

    reason: str
