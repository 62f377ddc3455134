"""Tool results that are no plain JSON: files, links to files, and objects with something beside them.

A link is a file whose content is still at the upstream. It is fetched through the host, as a call of its own, by
`fetch()`, or when its content is used.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from . import encoded

if TYPE_CHECKING:
    from .calls import Origin

_MAX_PLACEHOLDER_KEY = 60
_MAX_SAID = 200
"""Characters of a text beside a value that are shown."""


class Text(str):
    """The text of a file or result: a value, which may also be called, as `.text()` reads naturally for a file."""

    __slots__ = ()

    def __call__(self, encoding: str | re.Match[str] = "utf-8") -> str:
        if isinstance(encoding, re.Match):  # `re.sub` takes for a function whatever may be called
            return encoding.expand(str(self))
        return self if encoding.lower() in ("utf-8", "utf8") else self.encode().decode(encoding)


class File:
    """Bytes that a tool gave: an image, a sound, a document, an embedded text; or a link to some (`is_link`)."""

    def __init__(
        self,
        data: bytes | str | None = b"",
        mime_type: str | None = None,
        name: str | None = None,
        uri: str | None = None,
        *,
        size: int | None = None,
        description: str | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._content = data
        self._size = size
        self._origin = origin
        self.mime_type = mime_type
        self.name = name
        self.uri = uri
        self.description = description

    @property
    def is_link(self) -> bool:
        return self._content is None

    @property
    def is_text(self) -> bool:
        """True if the content is text: it came as text, or as bytes of a text type, in UTF-8."""
        if not isinstance(self._content, bytes) or not self._has_text_type:
            return isinstance(self._content, str)
        try:
            self._content.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def files(self) -> list[File]:
        """The file itself; every result with files has them under this name."""
        return [self]

    def fetch(self) -> Any:
        """The file with its content; several in a list if the link stands for several. In async code: awaitable."""
        if self.is_link and self._origin is not None and self.uri is not None:
            return self._origin.fetch(self.uri, sys._getframe(1))
        self.content()
        return self

    @property
    def data(self) -> bytes:
        content = self.content()
        return content.encode("utf-8", "replace") if isinstance(content, str) else content

    @property
    def size(self) -> int | None:
        """Bytes; of a link what the upstream says, or None."""
        return self._size if self.is_link else len(self.data)

    def __len__(self) -> int:
        """Characters of a text, bytes of anything else; `size` is always in bytes."""
        content = self.content()
        return len(self.text) if self.is_text else len(content)

    def __bool__(self) -> bool:
        return True

    def __bytes__(self) -> bytes:
        return self.data

    @property
    def text(self) -> Text:
        """The content as text. Raises `UnicodeDecodeError` if it is not in UTF-8."""
        content = self.content()
        try:
            return Text(content if isinstance(content, str) else content.decode())
        except UnicodeDecodeError as error:
            error.reason += "; .data has the bytes, .data.decode(encoding) reads another encoding"
            raise

    def json(self) -> Any:
        return json.loads(self.text)

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the content to a file, for instance under /workspace."""
        target = pathlib.Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.data)
        return target

    def __repr__(self) -> str:
        known = [*([repr(self.name)] if self.name else []), *([_plain(self.mime_type)] if self.mime_type else [])]
        if self.is_link:
            uri = [_plain(self.uri)] if self.uri else []
            return f"<File {' '.join([*known, 'link', *uri])}: f.text, f.data and f.save(path) fetch it>"
        ways = "f.text, f.data" if self.is_text else "show(f), f.data, f.save(path)"
        return f"<File {' '.join([*known, f'{self.size:,} bytes'])}: {ways}>"

    @property
    def _has_text_type(self) -> bool:
        mime_type = (self.mime_type or "").partition(";")[0].strip().lower()
        return mime_type.startswith("text/") or mime_type.endswith(("json", "xml"))

    def described(self) -> dict[str, Any]:
        """Its form in a program's result: the text, never the bytes."""
        said: dict[str, Any] = {"mime_type": self.mime_type, "size": self.size, "name": self.name}
        if self.uri is not None:
            said["uri"] = self.uri
        if self.is_link:
            said["is_link"] = True
        if self.is_text:
            said["text"] = str(self.text)
        return said

    def content(self) -> bytes | str:
        """The content in the form that tools take, fetched if it is at the upstream."""
        if self._content is None:
            if self._origin is None or self.uri is None:
                raise ValueError(f"{self!r} has no content, and nowhere to fetch it from")
            found = self._origin.read(self.uri)
            if not isinstance(found, File):
                raise ValueError(f"{self!r} stands for {len(found)} files; take them from fetch()")
            self._content = found.content()
            self.mime_type = self.mime_type or found.mime_type
        return self._content


class Shown(tuple[str, ...]):
    """The result of `show`: a line on each file. It is not a value of the program, and may be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Shown]:
        return self
        yield  # what makes it a generator


class Fields(dict[str, Any]):
    """An object that a tool gave, with what came beside it: `files`, and a `text` that says something else."""

    _files: tuple[File, ...] = ()
    _text: str | None = None
    _has_other_files = False

    @property
    def files(self) -> list[File]:
        """Files that came beside the object, and those within it as base64."""
        return list(self._files)

    @property
    def text(self) -> Any:
        """The text that came beside the object, without one its own field of that name, or None."""
        found = self._text if self._text is not None else self.get("text")
        return Text(found) if isinstance(found, str) else found

    def __missing__(self, key: str) -> Any:
        if key == "files" and self._files:
            return self.files
        if key == "text" and self._text is not None:
            return self._text
        raise KeyError(key)

    def beside(self) -> dict[str, Any]:
        """Data that came beside the object and is no key of it; a file within it is shown at its place."""
        found = {"files": self.files if self._has_other_files else None, "text": self._text}
        return {key: value for key, value in found.items() if value is not None and key not in self}


class Blocks(list[Any]):
    """A list that a tool gave, of texts, files and values, with all its `files` and its `text`."""

    _files: tuple[File, ...] = ()
    _text: str | None = None

    @property
    def files(self) -> list[File]:
        """The files among the items, within them, and in base64 within the list."""
        found = [
            *self._files,
            *(file for item in self if isinstance(item, (File, Fields, Blocks)) for file in item.files),
        ]
        return list({id(file): file for file in found}.values())

    @property
    def text(self) -> Text | None:
        """The text that came beside the list, without one the texts among its items, a line each, or None."""
        texts = [item for item in self if isinstance(item, str)] if self._text is None else [self._text]
        return Text("\n".join(texts)) if texts else None


def _plain(part: str) -> str:
    return part if part.isprintable() else repr(part)


def from_reply(value: Any, encoding: str, origin: Origin | None = None, *, is_raw: bool = False) -> Any:
    if is_raw:
        encoded.remember_raw(value)
        return value
    if encoding != "blocks":
        return value
    blocks = [_from_block(block, origin) for block in value]
    return blocks[0] if len(blocks) == 1 else Blocks(blocks)


def _from_block(block: dict[str, Any], origin: Origin | None) -> Any:
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "placeholder":
        return _with_placeholders(block)
    if block["type"] == "json":
        return _from_value(block["value"], block.get("beside", {}), origin)
    return _file(block, block.get("data"), origin)


def _from_value(value: Any, beside: dict[str, Any], origin: Origin | None) -> Any:
    """A value with what came beside it; files within it are decoded from their place."""
    files: list[File] = []
    has_others = False
    for block in beside.get("files", ()):
        data = _at(value, block["at"]) if "at" in block else block.get("data")
        has_others |= "at" not in block
        place = f".files[{len(files)}]" if isinstance(value, (dict, list)) else ""
        files.append(_file(block, data, origin, place))
    made: Any = value
    if isinstance(value, dict) and beside:
        made = Fields(value)
        made._has_other_files = has_others
    elif isinstance(value, list) and beside:
        made = Blocks(value)
    if "text" in beside and not isinstance(value, dict):  # a dict shows it as a key
        line = " ".join(beside["text"].split())
        what = f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:40]
        sys.stderr.write(f"text beside {what}: {line[:_MAX_SAID]}{'…' if len(line) > _MAX_SAID else ''}\n")
    if made is value:
        return made
    made._files, made._text = tuple(files), beside.get("text")
    return made


def _at(value: Any, path: list[Any]) -> str | None:
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _file(block: dict[str, Any], data: str | None, origin: Origin | None, place: str = "") -> File:
    names = block.get("mime_type"), block.get("name"), block.get("uri")
    content: bytes | str | None = block.get("text")
    if data is not None:
        content = encoded.decoded(data)
        encoded.remember(data, block.get("mime_type"), block.get("name"), place)
    return File(content, *names, size=block.get("size"), description=block.get("description"), origin=origin)


class Unknown(str):
    """Placeholder of a dry run for a result of unknown type, such as `<result of github.create_issue #1>`.

    Indexing this text gives another placeholder of the same call: `<number of github.create_issue #1>`.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return str.__getitem__(self, key)
        return Unknown(f"<{str(key)[:_MAX_PLACEHOLDER_KEY]} of {self.rpartition(' of ')[2]}")

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def items(self) -> list[Any]:
        return [(self["key"], self["value"])]

    def __iter__(self) -> Iterator[Any]:
        yield self[0]

    def __format__(self, spec: str) -> str:
        try:
            return str.__format__(self, spec)
        except ValueError:  # the program formats it as a number
            return str(self)


def _with_placeholders(block: dict[str, Any]) -> Any:
    """The value of a block of the host, in which the texts of `unknown` stand for values of unknown type."""
    unknown = frozenset(block["unknown"])

    def value_of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value_of(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [value_of(item) for item in value]
        return Unknown(value) if isinstance(value, str) and value in unknown else value

    return value_of(block["value"])
