"""`codemode.show`: images, sounds and files for the model to see, beside the program's value."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Callable
from itertools import islice
from typing import Any

from . import encoded
from .files import Blocks, Fields, File, Shown
from .link import Link
from .pictures import is_picture, pictures_of
from .tables import MAX_VALUES, too_large
from .values import MAX_DEPTH, resolve

_FEW = 100
_TAKES = (
    "a File, a result with files, bytes with mime_type=, the path of a file, a figure of matplotlib, a picture of PIL, "
    "or a list of these; a plain value is returned by ending the program with it"
)


def make_show(link: Link) -> Callable[..., Shown]:

    def show(*things: Any, name: str | None = None, mime_type: str | None = None) -> Shown:
        """Show images, sounds or files to the model: File, bytes, path, figure, or a list; of a tool's result all its
        files, of matplotlib.pyplot all open figures.

        What exceeds the budget is stored, and the answer names it.
        """
        found = [file for thing in things for file in _files(resolve(thing))]
        files = list({id(file): file for file in found}.values())
        if not files:
            raise TypeError(f"show() has nothing to show; it takes {_TAKES}")
        return Shown(tuple(_sent(link, file, name if len(files) == 1 else None, mime_type) for file in files))

    return show


def hint_on(value: Any) -> str:
    """The hint for a value that the model only sees if it is shown, or for bytes that the output left out."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    few = (value, *islice(parts, _FEW))
    for what in filter(None, map(too_large, few)):
        return (
            f"{what} has more than {MAX_VALUES:,} values, so it is shown in short and not stored: return part of it, "
            "or save it in /workspace"
        )
    if any(map(is_picture, few)):
        return "a figure or picture is shown by: from codemode import show; show(figure)"
    files = [thing for thing in few if isinstance(thing, File) and not thing.is_text]
    if files and all(file.is_link for file in files):
        return "a link is fetched by file.text, file.data or file.save(path)"
    if files or encoded.is_used():
        return (
            "bytes are not in a value or output: from codemode import show; show(file) shows an image or file, "
            "file.save(path) saves it; a result has .files"
        )
    return ""


def _sent(link: Link, file: File, name: str | None, mime_type: str | None) -> str:
    data = base64.b64encode(file.data).decode()
    if len(data) > link.call_bytes:
        raise ValueError(f"show(): {len(file.data)} bytes can't be sent (limits.call_bytes); save it in /workspace")
    asked = {"data": data, "mime_type": mime_type or file.mime_type, "name": name or file.name}
    return str(link.ask("show", ValueError, **asked))


def _files(thing: Any) -> list[File]:
    if isinstance(thing, (dict, list, tuple)):
        files = _files_within(thing)
        if not files and thing:
            raise TypeError(f"show() found no file in this {type(thing).__name__}; it takes {_TAKES}")
        return files
    if isinstance(thing, str) and (files := _files_of_text(thing)):
        return files
    if isinstance(thing, File):
        return [thing]
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return [File(bytes(thing))]
    if isinstance(thing, io.BytesIO):
        return [File(thing.getvalue())]
    if isinstance(thing, (str, pathlib.Path)):
        return [_of_path(thing)]
    if is_picture(thing):
        return pictures_of(thing)
    raise TypeError(f"show() takes {_TAKES}; not {type(thing).__name__}")


def _files_within(thing: Any, depth: int = 0) -> list[File]:
    """The files in a dict or list, however deep; texts and other values in it are passed over.

    Texts are paths only in a list that holds nothing else: beside files they are what a tool said of these.
    """
    if isinstance(thing, (Fields, Blocks)) and thing.files:
        return thing.files
    items = list(thing.values()) if isinstance(thing, dict) else [resolve(item) for item in thing]
    if not isinstance(thing, (dict, Blocks)) and items and all(isinstance(item, (str, pathlib.Path)) for item in items):
        return [file for item in items for file in _files(item)]
    found: list[File] = []
    for item in items:
        if isinstance(item, (dict, list, tuple)):
            found += _files_within(item, depth + 1) if depth < MAX_DEPTH else []
        elif isinstance(item, str):
            found += _files_of_text(item)
        elif item is not None and not isinstance(item, (int, float)):
            found += _files(item)
    return found


def _files_of_text(text: str) -> list[File]:
    found = encoded.file_in(text)
    return [File(*found)] if found is not None else []


def _of_path(path: str | pathlib.Path) -> File:
    try:
        return File(pathlib.Path(path).read_bytes(), name=pathlib.Path(path).name)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no such file"
        raise FileNotFoundError(f"show(): {str(path)[:200]!r} can't be read: {why}. It takes {_TAKES}") from None
