"""What a tool gives that is no plain JSON: files, links to files, and objects that came with something beside them.

A link is a file whose content is still at the upstream. It is fetched through the host, as a call of its own, by
`fetch()`, or when its content is used.
"""

from __future__ import annotations

import base64
import io
import json
import pathlib
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any, Protocol

from .pictures import dimensions


class Origin(Protocol):
    """Where a file came from: reads what it links to."""

    def read(self, uri: str) -> Any:
        """The resource, once it is there."""

    def hand_over(self, uri: str | None, value: Any, frame: FrameType | None) -> Any:
        """As a call does: the value for plain code, something to await for async code; without `uri` it is `value`."""


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
        """Whether the content is still to be fetched."""
        return self._content is None

    @property
    def is_text(self) -> bool:
        """Whether the content came as text."""
        return isinstance(self._content, str)

    def fetch(self) -> Any:
        """The file with its content; several in a list if the link stands for several. In async code: awaitable."""
        if self._origin is None:
            self._fetched()
            return self
        return self._origin.hand_over(self.uri if self.is_link else None, self, sys._getframe(1))

    @property
    def data(self) -> bytes:
        content = self._fetched()
        return content.encode("utf-8", "replace") if isinstance(content, str) else content

    @property
    def size(self) -> int | None:
        """Bytes; of a link what the upstream says, or None."""
        return self._size if self.is_link else len(self.data)

    @property
    def width(self) -> int | None:
        """Of a picture (PNG, JPEG, GIF, WebP) in pixels, else None."""
        found = dimensions(self.data)
        return found[0] if found else None

    @property
    def height(self) -> int | None:
        """As `width`."""
        found = dimensions(self.data)
        return found[1] if found else None

    def image(self) -> Any:
        """The picture as a Pillow image, where Pillow is installed."""
        try:
            from PIL import Image  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise ImportError(
                "there is no Pillow in this sandbox: use .width, .height, .data, or show(file); "
                "a microVM has it whose image has it (sandbox.image in upstream.yaml)",
                name="PIL",
            ) from None
        return Image.open(io.BytesIO(self.data))

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        return True

    def __bytes__(self) -> bytes:
        return self.data

    def text(self, encoding: str = "utf-8") -> str:
        """The content as text."""
        content = self._fetched()
        return content if isinstance(content, str) else content.decode(encoding)

    def json(self) -> Any:
        """The content, read as JSON."""
        return json.loads(self.text())

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the content to a file, for instance under /workspace."""
        target = pathlib.Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.data)
        return target

    def __repr__(self) -> str:
        if self.is_link:
            return f"File(name={self.name!r}, mime_type={self.mime_type!r}, uri={self.uri!r}, is_link=True)"
        return f"File(name={self.name!r}, mime_type={self.mime_type!r}, size={self.size})"

    def described(self) -> dict[str, Any]:
        """What a program's result says of it: not its bytes, but its text."""
        said: dict[str, Any] = {"mime_type": self.mime_type, "size": self.size, "name": self.name}
        if self.uri is not None:
            said["uri"] = self.uri
        if self.is_link:
            said["is_link"] = True
        elif isinstance(self._content, bytes) and (found := dimensions(self._content)):
            said["width"], said["height"] = found
        if isinstance(self._content, str):
            said["text"] = self._content
        return said

    def as_argument(self) -> bytes | str:
        """The content as a tool gets it."""
        return self._fetched()

    def _fetched(self) -> bytes | str:
        if self._content is None:
            if self._origin is None or self.uri is None:
                raise ValueError(f"{self!r} has no content, and nowhere to fetch it from")
            found = self._origin.read(self.uri)
            if not isinstance(found, File):
                raise ValueError(f"{self!r} stands for {len(found)} files; take them from fetch()")
            self._content = found._fetched()
            self.mime_type = self.mime_type or found.mime_type
        return self._content


class Shown(tuple[str, ...]):
    """What `show` gives: what became of each file. No value of a program; may be awaited, though it need not be."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Shown]:
        return self
        yield  # what makes it a generator


class Fields(dict[str, Any]):
    """An object that a tool gave with more beside it: `files`, and a `text` that says something else."""

    files: list[File]
    text: str | None

    def __missing__(self, key: str) -> Any:
        beside = self.beside()
        if key in beside:
            return beside[key]
        raise KeyError(key)

    def beside(self) -> dict[str, Any]:
        """What came beside the object and is no key of it."""
        found = {"files": self.files or None, "text": self.text}
        return {key: value for key, value in found.items() if value is not None and key not in self}


def from_reply(value: Any, encoding: str, origin: Origin | None = None) -> Any:
    """What a tool gave back, as the program gets it."""
    if encoding != "blocks":
        return value
    blocks = [_from_block(block, origin) for block in value]
    return blocks[0] if len(blocks) == 1 else blocks


def _from_block(block: dict[str, Any], origin: Origin | None) -> Any:
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "json":
        beside = block.get("beside")
        if beside is None:
            return block["value"]
        fields = Fields(block["value"])
        fields.files = [_from_block(file, origin) for file in beside.get("files", ())]
        fields.text = beside.get("text")
        return fields
    data = base64.b64decode(block["data"]) if "data" in block else block.get("text")
    names = block.get("mime_type"), block.get("name"), block.get("uri")
    return File(data, *names, size=block.get("size"), description=block.get("description"), origin=origin)
