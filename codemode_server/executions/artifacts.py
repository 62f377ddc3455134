"""Stores what programs return, print and show, in full, for later programs of the same owner, until the product ends.

An artifact has an owner, a session of a principal, and other owners can't find out that it exists. Sessions that end
with one request (see `mcp_server.callers`) get no list: there, knowing the exact name is enough, since the id of an
execution can't be guessed. Files are in a folder of this run (see `processes.file_lock`); a folder that a killed run
left is removed. Past its bounds the oldest item goes first.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from codemode_server.config.settings import Settings
from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.principals import Owner, Principal
from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.sandbox.contract import Reply
from codemode_server.support.private_files import NotPrivate, private_folder, private_subfolder
from codemode_server.support.text import first_few

Kind = Literal["json", "text", "file", "calls"]
_MAX_DESCRIBED = 64 * 1024
"""Bytes of a value that is read to say its form."""


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    """`x7f3a9c21b04` for the value of that execution; its other items have a second part: `…/stdout`, `…/1`."""
    kind: Kind
    size: int
    mime_type: str = "application/json"
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Where the result of one call is in the file of an item of kind `calls`."""

    start: int
    size: int
    encoding: Literal["json", "blocks"]


@dataclass(frozen=True, slots=True)
class Stored:
    item: Item
    owner: Owner
    path: Path
    parts: Mapping[int, Part] = field(default_factory=dict)


_MAX_ITEMS = 1_000
"""Limit for all sessions together: even a small item costs something."""
_MAX_NAMES = 5
"""Names listed in an error about another name."""
LARGE_BYTES = 256 * 1024
"""More than this is better written and read in a thread."""


class NotStored(CodemodeError):
    """Raised when an item can't be stored; the message says why."""

    code = "not_stored"


@dataclass(slots=True)
class ArtifactStore:
    """The items of one product. May be used from several threads at once."""

    folder: Path
    """Where the folders of all runs are."""
    session_bytes: int
    all_bytes: int
    _stored: dict[str, Stored] = field(default_factory=dict)
    """By name, oldest first."""
    _own: RunFolder | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, owner: Owner, item: Item, data: bytes) -> Item:
        """Store `data` under the item's name; the oldest items are removed to make room. Raises `NotStored` if it is
        too large, or can't be written."""
        self._check_size(len(data))
        with self._guard:
            self._make_room(owner, len(data))
            with raising_not_stored():
                path = self._write(data)
            self._add(Stored(item, owner, path))
        return item

    def follow(self, settings: Settings) -> None:
        """Put the limits of edited settings in force."""
        self.session_bytes, self.all_bytes = settings.limits.kept_mb * 2**20, settings.state.kept_mb * 2**20

    @property
    def max_bytes(self) -> int:
        return min(self.session_bytes, self.all_bytes)

    def new_file(self) -> Path:
        """An empty private file for `adopt`. Raises `NotStored` if it can't be written."""
        with self._guard, raising_not_stored():
            return self._write(b"")

    def adopt(self, owner: Owner, item: Item, path: Path, parts: Mapping[int, Part]) -> Item:
        """Store a file of `new_file`; it is removed if it is too large. Raises `NotStored` if it is too large."""
        try:
            self._check_size(item.size)
        except NotStored:
            path.unlink(missing_ok=True)
            raise
        with self._guard:
            self._make_room(owner, item.size)
            self._add(Stored(item, owner, path, parts))
        return item

    def reply(self, owner: Owner, name: str) -> Reply:
        """Content for a program under a name; that of call 3 of a program that failed is `…/calls/3`. Raises
        `MetaToolError` if the owner has nothing of that name."""
        execution, _, number = name.removesuffix("/calls").partition("/calls/")
        with self._guard:
            calls = self._stored.get(f"{execution}/calls")
            is_of_calls = bool(number) or execution not in self._stored  # one that was resumed may have a value too
            may_read = calls is not None and owner.may_read(calls.owner)
            found = calls if calls is not None and may_read and is_of_calls else self._find(owner, name)
        item, part = found.item, Part(0, found.item.size, "json")
        if item.kind == "calls":
            if not number.isdecimal() or int(number) not in found.parts:
                numbers = first_few([*map(str, found.parts)], _MAX_NAMES)
                why = f"{name[:100]!r} is not the result of one call"
                if number.isdecimal():
                    why = f"call {number} of {execution} has no stored result"
                elif name == execution:
                    why = f"{execution} failed and has no value"
                raise MetaToolError(f"{why}; there is {execution}/calls/N for N = {numbers}")
            part = found.parts[int(number)]
        data = _content(found, part)
        match item.kind:
            case "text":
                return Reply(data.decode())
            case "file":
                content = {
                    "mime_type": item.mime_type,
                    "name": item.title,
                    "uri": None,
                    "data": base64.b64encode(data).decode(),
                }
                return Reply([{"type": "file", **content}], "blocks")
            case _:
                return Reply(json.loads(data), part.encoding)

    def _check_size(self, size: int) -> None:
        if self.max_bytes == 0:
            raise NotStored("nothing is stored (limits.kept_mb is 0)")
        if size > self.max_bytes:
            raise NotStored(f"{size:,} bytes are more than is stored (limits.kept_mb, state.kept_mb)")

    def _add(self, stored: Stored) -> None:
        if (earlier := self._stored.get(stored.item.name)) is not None:
            self._forget(earlier)
        self._stored[stored.item.name] = stored

    def has(self, owner: Owner, name: str) -> bool:
        with self._guard:
            found = self._stored.get(name)
            return found is not None and owner.may_read(found.owner)

    def read(self, owner: Owner, name: str) -> tuple[Item, bytes]:
        """The item of that name and its content. Raises `MetaToolError` if the owner has none."""
        with self._guard:
            found = self._find(owner, name)
            return found.item, _content(found, Part(0, found.item.size, "json"))

    def items(self, owner: Owner) -> list[Item]:
        """All that an owner has, oldest first; nothing for a session that ends with its request."""
        with self._guard:
            return self._items(owner)

    def last_value(self, owner: Owner) -> tuple[str, str]:
        """The name of the last value that a program of the owner returned, and its form; empty if none is stored."""
        with self._guard:
            item = next((item for item in reversed(self._items(owner)) if "/" not in item.name), None)
        if item is None:
            return "", ""
        from codemode_server.sandbox.guest.value_descriptions import shape  # rarely needed

        return item.name, shape(self.reply(owner, item.name).value) if item.size <= _MAX_DESCRIBED else ""

    def clean_leftovers(self, is_ending: Callable[[], bool] = lambda: False) -> int:
        """Remove the folders of runs that were killed, until `is_ending`; gives their number."""
        count = 0
        if self.folder.is_symlink():
            return count
        for folder in abandoned(self.folder):
            count += folder.remove(is_ending)
            if is_ending():
                break
        return count

    def close(self) -> None:
        with self._guard:
            self._stored = {}
            if self._own is not None:
                self._own.remove()
            self._own = None

    def _find(self, owner: Owner, name: str) -> Stored:
        found = self._stored.get(name)
        if found is None or not owner.may_read(found.owner):
            raise MetaToolError(f"no result {name[:100]!r} in this session (any more){self._there_are(owner)}")
        return found

    def _items(self, owner: Owner) -> list[Item]:
        is_listed = not owner.session.is_ephemeral
        return [it.item for it in self._stored.values() if it.owner == owner] if is_listed else []

    def _there_are(self, owner: Owner) -> str:
        """The names of the owner's last items, for an error; empty if it has none."""
        stored = [self._stored[item.name] for item in self._items(owner)[-_MAX_NAMES:]]
        names = [repr(f"{it.item.name}/{max(it.parts)}" if it.parts else it.item.name) for it in stored]
        return f"; the last: {', '.join(names)}" if names else ""

    def _make_room(self, owner: Owner, size: int) -> None:
        """Make room for so many bytes, first within the session, then among all principals: there from the one that has
        the most, so that none can displace what others have stored. The oldest go first."""
        while self._bytes(lambda it: it.owner)[owner] + size > self.session_bytes and self._forget_oldest(owner):
            pass
        while True:
            sizes = self._bytes(lambda it: it.owner.principal)
            sizes[owner.principal] += size
            if sizes.total() <= self.all_bytes:
                if len(self._stored) < _MAX_ITEMS:
                    return
                sizes = Counter(it.owner.principal for it in self._stored.values())  # those with the most items
                sizes[owner.principal] += 1
            if not self._forget_oldest(max(sizes, key=lambda it: sizes[it])):  # only what is to be stored
                return

    def _bytes(self, of: Callable[[Stored], Owner | Principal]) -> Counter[Owner | Principal]:
        sizes: Counter[Owner | Principal] = Counter()
        for it in self._stored.values():
            sizes[of(it)] += it.item.size
        return sizes

    def _forget_oldest(self, of: Owner | Principal) -> bool:
        oldest = next((it for it in self._stored.values() if of in (it.owner, it.owner.principal)), None)
        if oldest is not None:
            self._forget(oldest)
        return oldest is not None

    def _forget(self, stored: Stored) -> None:
        del self._stored[stored.item.name]
        with contextlib.suppress(OSError):
            stored.path.unlink(missing_ok=True)

    def _write(self, data: bytes) -> Path:
        path = self._own_folder().path / secrets.token_hex(8)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _own_folder(self) -> RunFolder:
        if self._own is None or not self._own.path.is_dir():  # it may have been deleted by hand
            if self._own is not None:
                self._own.release()
            state_folder = private_folder(self.folder.parent, "state.dir in upstream.yaml", is_readable=True)
            private_subfolder(state_folder, self.folder.name)
            self._own = RunFolder.make(self.folder)
        return self._own


def _content(stored: Stored, part: Part) -> bytes:
    try:
        with stored.path.open("rb") as file:
            file.seek(part.start)
            return file.read(part.size)
    except OSError as error:
        raise MetaToolError(f"{stored.item.name!r} can't be read: {error.strerror or error}") from error


@contextlib.contextmanager
def raising_not_stored() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotStored(f"it could not be written: {error.strerror or error}") from error
    except NotPrivate as error:
        raise NotStored(f"it could not be written: {error}") from error
