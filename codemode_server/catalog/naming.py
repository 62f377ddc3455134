"""Upstream names → legal, unique Python names, the same way for ever.

A name depends on its raw name alone, except where two of a kind come out equal (for servers and tools: equal but for
case, since they become files on file systems that ignore it). Then the one that was a clean identifier keeps its name
and the others carry a hash of their raw name; where none was clean all carry one, so that no name ever passes silently
from one tool to another. The lists of reserved words are frozen here: with those of the running Python a name could
change with its version.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import count

LONGEST = 80
"""Characters of a name; longer ones are cut and carry a hash. Also bounds the bytes of a file name."""

_KEYWORDS = """
    False None True and as assert async await break class continue def del elif else except finally for from global if
    import in is lambda nonlocal not or pass raise return try while with yield
"""
_BUILTINS = """
    abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright
    credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash
    help hex id input int isinstance issubclass iter len license list locals map max memoryview min next object oct open
    ord pow print property quit range repr reversed round set setattr slice sorted staticmethod str sum super tuple type
    vars zip
"""

KEYWORDS = frozenset(_KEYWORDS.split())

BUILTINS = frozenset(_BUILTINS.split())
"""A tool of such a name gets an underscore: `from servers.redis import set` would turn each `set()` into a call."""

STUB_NAMES = frozenset({"Any", "Literal", "NotRequired", "ToolError", "TypedDict", "tool"})
"""What the generated modules themselves import or define."""

_DEVICES = frozenset({"aux", "con", "nul", "prn", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
"""Names that Windows does not allow for files, whatever their ending."""

_SYMBOLS = {"<": "_lt", ">": "_gt"}  # `StartTime<` and `StartTime>` are real, and told apart by nothing else
_HASH_LENGTHS = (4, 8, 16, 52)


class Kind(StrEnum):
    """What a name is for; also its prefix where a prefix is needed."""

    SERVER = "server"
    TOOL = "tool"
    PARAMETER = "arg"


_RESERVED = {
    Kind.SERVER: KEYWORDS | STUB_NAMES | _DEVICES | {"File", "P", "Tool"},  # names in `servers/__init__.py`
    Kind.TOOL: KEYWORDS | BUILTINS | STUB_NAMES | _DEVICES,
    Kind.PARAMETER: KEYWORDS,
}


def server_names(raw_names: Iterable[str]) -> dict[str, str]:
    """Raw name → name of the package below `servers`."""
    return _assign(raw_names, Kind.SERVER, str.casefold)


def tool_names(raw_names: Iterable[str]) -> dict[str, str]:
    """Raw name → name of the function, and of its module, within one server."""
    return _assign(raw_names, Kind.TOOL, str.casefold)


def parameter_names(raw_names: Iterable[str]) -> dict[str, str]:
    """Raw name → name of the parameter, within one tool."""
    return _assign(raw_names, Kind.PARAMETER, str)


def name_alone(raw: str, kind: Kind) -> str:
    """The name that it would have if there were no other."""
    return _cleaned(raw, kind)


def is_plain_identifier(text: str) -> bool:
    """Whether Python reads the text as this very name, in a class body too (where `__x` would be mangled)."""
    return (
        text.isidentifier()
        and text not in KEYWORDS
        and not text.startswith("__")
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
    )


def words(text: str) -> list[str]:
    """The words in an identifier, as written: `API-postPage` → API, post, Page."""
    return _WORD.findall(text)


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")


def _assign(raw_names: Iterable[str], kind: Kind, fold: Callable[[str], str]) -> dict[str, str]:
    wanted = {raw: _cleaned(raw, kind) for raw in raw_names}
    groups: dict[str, list[str]] = {}
    for raw, name in wanted.items():
        groups.setdefault(fold(name), []).append(raw)
    if len(groups) == len(wanted):
        return wanted

    moved: list[str] = []
    for group in groups.values():
        if len(group) > 1:
            clean = sorted((raw for raw in group if wanted[raw] == raw), key=lambda raw: (raw != raw.lower(), raw))
            moved += [raw for raw in group if raw not in clean[:1]]
    taken = {fold(name) for raw, name in wanted.items() if raw not in set(moved)}
    for raw in sorted(moved):
        wanted[raw] = next(name for name in _suffixed(wanted[raw], raw) if fold(name) not in taken)
        taken.add(fold(wanted[raw]))
    return wanted


def _suffixed(name: str, raw: str) -> Iterable[str]:
    """Candidates in order: longer hashes, then numbers, for an upstream that wants the hashes to collide."""
    for length in _HASH_LENGTHS:
        yield f"{name[: LONGEST - length - 1].rstrip('_')}_{_hash(raw)[:length]}"
    for number in count(2):
        yield f"{name[: LONGEST - 12].rstrip('_')}_{number}"


def _cleaned(raw: str, kind: Kind) -> str:
    if raw.isascii() and is_plain_identifier(raw) and raw.strip("_") and len(raw) <= LONGEST:
        name = raw
    else:
        name = _identifier(raw, kind)
    return f"{name}_" if _is_reserved(name, kind) else name


def _is_reserved(name: str, kind: Kind) -> bool:
    return name in _RESERVED[kind] or (kind is not Kind.PARAMETER and name.lower() in _DEVICES)


def _identifier(raw: str, kind: Kind) -> str:
    text = unicodedata.normalize("NFKC", raw)
    if not is_plain_identifier(text):
        for symbol, word in _SYMBOLS.items():
            text = text.replace(symbol, word)
        text = re.sub(r"\W+", "_", text)
        if not text.isascii():  # \w takes some characters that no identifier may hold
            text = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in text)
        text = text.strip("_")
    if not text.strip("_"):
        return f"{kind}_{_hash(raw)[:4]}"
    if not text.isidentifier() and text not in KEYWORDS:
        text = f"{kind}_{text}"
    if len(text) > LONGEST or len(text.encode()) > 2 * LONGEST:
        text = f"{text.encode()[: LONGEST - 5].decode(errors='ignore').rstrip('_')}_{_hash(raw)[:4]}"
    return text


def _hash(raw: str) -> str:
    digest = hashlib.sha256(raw.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()
