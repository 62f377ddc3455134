"""What a tool may send beside its result: no type declares it, and a program has it as `.files` and `.text`
(`sandbox/guest/files.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from codemode_server.executions.preflight.tool_types import ResultClass, in_words

FILES = "files"
TEXT = "text"
_OF_FILES = frozenset({"data", "mime_type", "size", "width", "height", "image", "save"})
_FILE_KEYS = frozenset({"mimeType", "mime_type", "blob"})


def comes_with_result(known: ResultClass, name: str) -> bool:
    """Whether `.name` and `["name"]` may stand for what came beside an object of this class.

    A tool that declares its output has no text beside it, but may still have files.
    """
    is_whole_result = known.name in known.tool.stub.returned.type.names
    return is_whole_result and (name == FILES or (name == TEXT and known.tool.definition.output_schema is None))


def is_always_none(known: ResultClass, name: str) -> bool:
    """Whether `.name` is None for an object of this class that came with files, and an error for any other object."""
    return name == TEXT and known.name in known.tool.stub.returned.type.names


def way_to_file(known: ResultClass, name: str, classes: Iterable[ResultClass]) -> str:
    """Where the file is, for `.name` that files have, on a result whose declared content may hold some."""
    is_meant = name in _OF_FILES and known.name in known.tool.stub.returned.type.names
    holds_files = any(_FILE_KEYS & set(held.keys) for held in classes if held.tool is known.tool)
    return "; a file that came with it is .files[0]" if is_meant and holds_files else ""


def has_file_attributes(kind: str, name: str) -> bool:
    """Whether a type is a list of texts and files, which has both attributes; files have the type Any."""
    words = in_words(kind)
    return name in (FILES, TEXT) and words.startswith("list[") and "Any" in words
