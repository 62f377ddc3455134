"""Finds the texts in the arguments of calls, keys too, each with its spellings as other programs may read it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from codemode_server.features.guardrails.guardrail import Ask, Block, CallVerdict, GuardedCall, Guardrail, Pass
from codemode_server.support.json_values import texts_in

_MAX_DECODED = 4
"""How often a text is percent-decoded: an address within an address within an address."""
MAX_ESCAPES = 100_000
"""Percent-escapes of one text: about 0.1 s."""
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNSEEN = dict.fromkeys(
    [*range(0x200B, 0x2010), *range(0x2060, 0x2065), 0x00AD, 0xFEFF, 0x034F, 0x180E, *range(0xFE00, 0xFE10)]
)
"""Characters without width, which some programs drop."""


class Unreadable(Exception):
    """The texts of a call have more in them than is read."""


def texts_of(value: Any) -> Iterator[tuple[str, str]]:
    """Each text in a value, with where it stands: the name of an argument. Numbers have none."""
    if not isinstance(value, dict):
        yield from (("value", text) for text in texts_in(value))
        return
    for name, item in value.items():
        yield "a name", str(name)
        yield from ((f"{name!r}", text) for text in texts_in(item))


def spellings_of(text: str) -> Iterator[str]:
    """The text, without characters that nobody sees and in its compatible form; and the same percent-decoded. Raises
    `Unreadable` if it has too many escapes."""
    seen: set[str] = set()
    for _ in range(_MAX_DECODED):
        plain = text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_UNSEEN))
        for one in (text, plain):
            if one not in seen:
                seen.add(one)
                yield one
        if "%" not in plain:
            return
        if len(_ESCAPE.findall(plain)) > MAX_ESCAPES:
            raise Unreadable(f"a text has more than {MAX_ESCAPES:,} percent-escapes, and is not read")
        if (decoded := unquote(plain)) == plain:
            return
        text = decoded


class ArgumentsGuardrail(Guardrail):
    """Blocks or asks about a call in which it finds something, as `action` says; blocks one that it can't read."""

    def before_call(self, call: GuardedCall) -> CallVerdict:
        try:
            reason = self.problem(call)
        except Unreadable as error:
            return Block(str(error))
        if not reason:
            return Pass()
        return Ask(reason) if self.settings.action == "ask" else Block(reason)

    def problem(self, call: GuardedCall) -> str:
        """Problem in the arguments; empty if none. Raises `Unreadable` if they have more in them than is read."""
        raise NotImplementedError
