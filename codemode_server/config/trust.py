"""Records which configuration files in project folders the person has trusted, by path and content.

A repository may hold an `upstream.yaml`, and hosts start us in the project's folder: without this, opening a cloned
repository would start the commands in it. What is trusted is the content of the file and of the `.env` beside it, as
they were read when the person agreed; any other content needs trust again. Programs that the file starts are not part
of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, TypeAlias

from pydantic import Field

from codemode_server.config.file_records import FileRecord

Digests: TypeAlias = Mapping[str, str]
"""SHA-256 of each file that was read, by path; empty where there was no such file."""


class TrustRecord(FileRecord):
    folder: ClassVar[str] = "trusted"
    digests: dict[str, str] = Field(repr=False)

    def covers(self, digests: Digests) -> bool:
        """True if all of these files have the trusted content."""
        return digests.items() <= self.digests.items()


def is_trusted(path: Path, digests: Digests) -> bool:
    found = TrustRecord.find(path)
    return found is not None and found.covers(digests)
