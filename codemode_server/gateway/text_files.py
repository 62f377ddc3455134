"""The files in a reply that are texts: each with what the detection finds in it, and with another text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from codemode_server.domain.principals import Principal
from codemode_server.gateway.binary_parts import BinaryPart
from codemode_server.gateway.detection import Detection
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.encodings import TextFile, from_base64, read_text, to_base64
from codemode_server.privacy.findings import Findings

if TYPE_CHECKING:
    from codemode_server.privacy.renamed_fields import RenamedFields


class ReadFile(NamedTuple):
    part: BinaryPart
    file: TextFile

    @property
    def text(self) -> str:
        return self.file.text

    def with_text(self, text: str) -> BinaryPart:
        """The file with this text, in the encoding that it has."""
        if text == self.file.text:
            return self.part
        return BinaryPart(self.part.place, to_base64(self.file.bytes_of(text), self.part.data))


class SearchedFile(NamedTuple):
    read: ReadFile
    found: Findings


async def read_files(parts: Iterable[BinaryPart]) -> list[ReadFile]:
    """Those of these files that are texts."""
    read: list[ReadFile] = []
    for part in parts:
        plain = await run_sized(is_large(part.data), from_base64, part.data)
        file = await run_sized(is_large(part.data), read_text, plain) if plain is not None else None
        if file is not None:
            read.append(ReadFile(part, file))
    return read


async def searched_files(
    detection: Detection, principal: Principal, parts: Iterable[BinaryPart], withheld: str, fields: RenamedFields
) -> list[SearchedFile]:
    """Those of these files that are texts; the rest is as in `Detection.find`.

    Raises:
        ResultWithheld: the recognizer of names has failed.
    """
    read = await read_files(parts)
    find = partial(detection.find, principal, withheld=withheld, fields=fields)
    return [SearchedFile(it, await find(it.text)) for it in read]
