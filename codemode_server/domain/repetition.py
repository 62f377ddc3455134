"""Input for repeating a program exactly: the seed of its randomness. No I/O."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Repeat:
    """Input of a program beside its text and the answers to its calls. The real clock is read and not recorded."""

    seed: bytes = field(repr=False)
    build: str = ""
    """Build of the sandbox of the first run (`SandboxBackend.build`); empty if unknown."""

    @classmethod
    def new(cls) -> Repeat:
        """For a program that runs for the first time."""
        return cls(secrets.token_bytes(SEED_BYTES))
