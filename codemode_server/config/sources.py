"""Reads the files of one configuration: each once, so that what is digested is what is used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from codemode_server.config.document import MAX_BYTES


@dataclass(slots=True)
class Sources:
    """The files that were read, with their digests."""

    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 by path; empty where there is no such file."""
    _contents: dict[str, bytes] = field(default_factory=dict, repr=False)

    def read(self, path: Path) -> bytes:
        """At most one byte more than a configuration may have.

        Raises:
            OSError: there is no such file, or it can't be read.
        """
        name = str(path)
        if name in self._contents:
            return self._contents[name]
        self.digests[name] = ""
        if path.exists() and not path.is_file():  # reading a pipe would not end
            raise OSError(0, "is not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        self._contents[name] = content
        self.digests[name] = hashlib.sha256(content).hexdigest()
        return content
