"""Maps upstream names to legal, unique Python names that never change.

A name depends only on its raw name, unless two names collide (for servers and tools ignoring case, since they become
files on case-insensitive file systems). Then a raw name that already was a legal identifier keeps it, and the others
get a suffix with a hash of their raw name; if none was legal, all get the suffix. So a name never moves silently from
one tool to another. The reserved words are listed here, because those of the running Python change with its version.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import StrEnum

from codemode_server.domain.principals import DEVICE_NAMES

MAX_NAME_CHARACTERS = 80
"""Characters of a name; longer names are cut and get a hash. Also bounds the bytes of a file name."""

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
"""A tool with such a name gets an underscore, since `from servers.redis import set` would shadow the builtin `set`."""

STUB_NAMES = frozenset({"Any", "Literal", "NotRequired", "ToolError", "TypedDict", "tool"})

_SYMBOLS = {"<": "_lt", ">": "_gt"}  # real parameters: `StartTime<` and `StartTime>`


class Kind(StrEnum):
    SERVER = "server"
    TOOL = "tool"
    PARAMETER = "arg"


_RESERVED = {
    Kind.SERVER: KEYWORDS | STUB_NAMES | DEVICE_NAMES | {"File", "P", "Tool"},  # names in `servers/__init__.py`
    Kind.TOOL: KEYWORDS | BUILTINS | STUB_NAMES | DEVICE_NAMES,
    Kind.PARAMETER: KEYWORDS,
}


def server_names(raw_names: Iterable[str]) -> dict[str, str]:
    return _assign(raw_names, Kind.SERVER, str.casefold)


def tool_names(raw_names: Iterable[str]) -> dict[str, str]:
    """Maps raw names of one server's tools to names of functions, which are also the names of their modules."""
    return _assign(raw_names, Kind.TOOL, str.casefold)


def parameter_names(raw_names: Iterable[str]) -> dict[str, str]:
    return _assign(raw_names, Kind.PARAMETER, str)


def is_plain_identifier(text: str) -> bool:
    """True if the text is an identifier that Python neither normalizes nor mangles (`__x` in a class body)."""
    return (
        text.isidentifier()
        and text not in KEYWORDS
        and not text.startswith("__")
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
    )


def words(text: str) -> list[str]:
    """The words in an identifier, as written: `API-postPage` → API, post, Page."""
    return _WORD.findall(text)


def singular_of(word: str) -> str:
    """An English noun in lower case without its plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "siu" else word


def singular_words(name: str) -> list[str]:
    """The words in a name, in lower case and without plural endings."""
    return [singular_of(word.lower()) for word in words(name)]


def same_words(one: str, other: str) -> bool:
    """True if two names differ only in case and in what is between their words: `args-prompt`, `args_prompt`."""
    return [word.lower() for word in words(one)] == [word.lower() for word in words(other)]


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")


def _assign(raw_names: Iterable[str], kind: Kind, fold: Callable[[str], str]) -> dict[str, str]:
    names = {raw: name_alone(raw, kind) for raw in raw_names}
    groups: dict[str, list[str]] = {}
    for raw, name in names.items():
        groups.setdefault(fold(name), []).append(raw)
    if len(groups) == len(names):
        return names

    moved: list[str] = []
    for group in groups.values():
        if len(group) > 1:
            clean = sorted((raw for raw in group if names[raw] == raw), key=lambda raw: (raw != raw.lower(), raw))
            moved += [raw for raw in group if raw not in clean[:1]]
    taken = {fold(name) for raw, name in names.items() if raw not in set(moved)}
    for raw in sorted(moved):
        names[raw] = next(name for name in _suffixed(names[raw], raw) if fold(name) not in taken)
        taken.add(fold(names[raw]))
    return names


def _suffixed(name: str, raw: str) -> Iterable[str]:
    """Candidates in order: a short hash, then the whole one, in case an upstream provokes collisions."""
    for length in (4, 52):
        yield f"{name[: MAX_NAME_CHARACTERS - length - 1].rstrip('_')}_{hashed(raw)[:length]}"


def name_alone(raw: str, kind: Kind) -> str:
    if raw.isascii() and is_plain_identifier(raw) and raw.strip("_") and len(raw) <= MAX_NAME_CHARACTERS:
        name = raw
    else:
        name = _identifier(raw, kind)
    is_reserved = name in _RESERVED[kind] or (kind is not Kind.PARAMETER and name.lower() in DEVICE_NAMES)
    return f"{name}_" if is_reserved else name


def _identifier(raw: str, kind: Kind) -> str:
    text = unicodedata.normalize("NFKC", raw)
    if not is_plain_identifier(text):
        for symbol, word in _SYMBOLS.items():
            text = text.replace(symbol, word)
        text = re.sub(r"\W+", "_", text)
        if not text.isascii():  # \w matches some characters that are illegal in identifiers
            text = "".join(letter if f"a{letter}".isidentifier() else "_" for letter in text)
        text = text.strip("_")
    if not text.strip("_"):
        return f"{kind}_{hashed(raw)[:4]}"
    if not text.isidentifier() and text not in KEYWORDS:
        text = f"{kind}_{text}"
    if len(text) > MAX_NAME_CHARACTERS or len(text.encode()) > 2 * MAX_NAME_CHARACTERS:
        text = f"{text.encode()[: MAX_NAME_CHARACTERS - 5].decode(errors='ignore').rstrip('_')}_{hashed(raw)[:4]}"
    return text


def hashed(raw: str) -> str:
    """A hash of a raw name, of small letters and digits."""
    digest = hashlib.sha256(raw.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()
