"""Attachments for the model beside a program's value: images, sounds and files, checked, and within a budget.

The kind of a file is decided by its first bytes, not by what the program says. Other bytes are a file, and text
is cleaned and redacted as everything else. Of all other bytes only a secret that stands in them as it is can be found.
"""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codemode_server.domain.errors import MetaToolError
from codemode_server.executions.artifacts import LARGE_BYTES, ArtifactStore, Item, NotStored
from codemode_server.support.off_loop import run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.support.tokens import estimate_tokens
from codemode_server.upstreams.file_types import file_type

if TYPE_CHECKING:
    from codemode_server.executions.execution import Execution

_MAX_FILES = 64
"""Maximum number of files that one program shows, including those that are only stored."""
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_TEXTS = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/x-ndjson")
_UNNAMED = ("application/octet-stream", "binary/octet-stream")
_Kind = Literal["image", "audio", "text", "blob"]


@dataclass(frozen=True, slots=True)
class ShownFile:
    number: int
    kind: _Kind
    mime_type: str
    data: bytes
    """Empty if the file exceeds the budget."""
    size: int
    name: str | None
    is_within_budget: bool
    artifact: str | None
    """The name under which it is stored, or None."""


@dataclass(slots=True)
class Attachments:
    """Collects the files that one execution shows, in `Execution.shown`."""

    execution: Execution
    artifacts: ArtifactStore
    _bytes: int = 0
    _tokens: int = 0
    _count: int = 0

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        """Add a file; the text says to the program whether it is shown or only stored. Raises `MetaToolError` if there
        are too many, or it exceeds the budget and can't be stored."""
        files, redactor = self.execution.shown, self.execution.caller.redactor
        if len(files) >= _MAX_FILES:
            raise MetaToolError(f"show(): a program can show {_MAX_FILES} files; save more in /workspace")
        title = redactor.line((name or "").replace("\\", "/").rpartition("/")[2], 120) or None
        kind, checked_type = await run_sized(len(data) >= LARGE_BYTES, checked, data, mime_type, title)
        data = await run_sized(len(data) >= LARGE_BYTES, _redacted, redactor, data, kind)
        unsearched = self.execution.unsearched_files()
        if kind != "text" and unsearched == "refuse":
            raise MetaToolError(
                f"show(): {checked_type} can't be searched for personal data, so it is not shown (the user's setting "
                "privacy.shown_files); show a text, or save it in /workspace"
            )
        number = len(files) + 1
        is_within = self._fits(data, kind)
        artifact, why = f"{self.execution.execution_id}/{number}", ""
        try:
            item = Item(artifact, "file", len(data), checked_type, title)
            await run_sized(len(data) >= LARGE_BYTES, self.artifacts.keep, self.execution.owner, item, data)
        except NotStored as error:
            artifact, why = "", str(error)
        if not is_within and not artifact:
            raise MetaToolError(
                f"show(): {len(data):,} bytes are past the budget (limits.shown_files, limits.shown_bytes, "
                f"limits.output_tokens) and could not be stored for later: {why}; save it in /workspace"
            )
        files.append(
            ShownFile(
                number, kind, checked_type, data if is_within else b"", len(data), title, is_within, artifact or None
            )
        )
        if kind != "text" and unsearched == "mark":
            self.execution.calls.messages.append(
                f"shown file {number} ({checked_type}) was not searched for personal data"
            )
        return "shown" if is_within else f"past the budget, stored as {artifact}"

    def _fits(self, data: bytes, kind: str) -> bool:
        """True if there is room for it in the answer; if so, the room is reserved."""
        limits = self.execution.caller.config.settings.limits
        size, tokens = 4 * -(-len(data) // 3), 0
        if kind == "text":
            size, tokens = len(data), estimate_tokens(data.decode())
        if (
            self._count >= limits.shown_files
            or self._bytes + size > limits.shown_bytes
            or self._tokens + tokens > limits.output_tokens
        ):
            return False
        self._count, self._bytes, self._tokens = self._count + 1, self._bytes + size, self._tokens + tokens
        return True


def _redacted(redactor: Redactor, data: bytes, kind: str) -> bytes:
    if kind == "text":
        return redactor.visible(data.decode()).encode()
    return redactor.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def checked(data: bytes, claimed: str | None, name: str | None) -> tuple[_Kind, str]:
    """The kind and MIME type of bytes: by how they begin, else as the program says."""
    claim = (claimed or "").partition(";")[0].strip().lower()
    if not _MIME_TYPE.fullmatch(claim) or claim in _UNNAMED:
        claim = mimetypes.guess_type(name or "")[0] or ""
    known = file_type(data)
    if known.startswith("image/"):
        return "image", known
    if known.startswith("audio/") and (not claim or claim.startswith(("audio/", "video/"))):
        return "audio", known
    is_text = _is_text(data)
    if claim.startswith(("image/", "audio/")) and not (is_text and claim.endswith("+xml")):
        claim = ""  # it is not what the program says
    if is_text and (not claim or claim.startswith("text/") or claim in _TEXTS or claim.endswith(("+xml", "+json"))):
        return "text", claim or "text/plain"
    return "blob", claim or "application/octet-stream"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
