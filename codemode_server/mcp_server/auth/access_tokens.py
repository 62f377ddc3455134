"""The tokens that `codemode-server tokens` makes: each stands for one principal until it expires or is revoked.

They are in one private file of the state folder, which holds no token: only the SHA-256 of each. A token is 32 random
bytes, so it can't be guessed from that, and no slow hash is needed. A running product notices each change of the file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal
from codemode_server.mcp_server.http_settings import PrincipalName
from codemode_server.processes.file_lock import held
from codemode_server.support.file_stamps import NO_FILE, FileStamp
from codemode_server.support.private_files import open_private, private_folder, replace_private
from codemode_server.support.text import escaped

logger = logging.getLogger(__name__)

FILE_NAME = "http-tokens.json"
PREFIX = "cms_"
"""Prefix of each token, by which scanners find leaked ones."""
MAX_TOKENS = 1_000
TOKEN_BYTES = 32
_LOCK_S = 10.0
_MAX_FILE_BYTES = 1 << 20


class TokenRecord(BaseModel):
    """One token, without the token itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_id: str
    principal: PrincipalName
    sha256: str
    created_at: float
    expires_at: float | None
    """None: never."""

    def is_valid(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: list[TokenRecord]


class AccessTokens:
    """The tokens of one state folder."""

    def __init__(self, state_folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = state_folder
        self._clock = clock
        self._stamp, self._by_digest = NO_FILE, dict[str, TokenRecord]()
        self.file = state_folder / FILE_NAME

    def create(self, principal: PrincipalId, expires_s: float | None) -> tuple[str, TokenRecord]:
        """Make a token. It is returned here and stored nowhere. Raises `SettingsError`, `NotPrivate`: the file can't be
        read or written."""
        token, now = PREFIX + secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        record = TokenRecord(
            token_id=secrets.token_hex(4),
            principal=principal,
            sha256=_digest(token),
            created_at=now,
            expires_at=None if expires_s is None else now + expires_s,
        )
        with self._changing() as known:
            known[:] = [it for it in known if it.is_valid(now)]
            if len(known) >= MAX_TOKENS:
                raise CodemodeError(f"there are {MAX_TOKENS} tokens already; revoke one: codemode-server tokens list")
            known.append(record)
        return token, record

    def revoke(self, token_id: str) -> TokenRecord | None:
        """Delete a token; None if there is none of this id. Raises as `create` does."""
        with self._changing() as known:
            found = next((it for it in known if it.token_id == token_id), None)
            if found is not None:
                known.remove(found)
        return found

    def records(self) -> list[TokenRecord]:
        """All tokens, also expired ones, oldest first. Raises `SettingsError`, `NotPrivate`: the file can't be read."""
        try:
            with os.fdopen(open_private(self.file, os.O_RDONLY), "rb") as opened:
                text = opened.read(_MAX_FILE_BYTES + 1)
            return _File.model_validate_json(text).tokens
        except FileNotFoundError:
            return []
        except ValidationError:
            raise SettingsError(
                f"{escaped(str(self.file))} is no list of tokens; remove it and make new ones"
            ) from None
        except OSError as error:
            raise self._unusable(error) from error

    def has_valid(self) -> bool:
        """True if any token is valid. Raises as `records` does."""
        return any(it.is_valid(self._clock()) for it in self.records())

    def identity_of(self, token: str) -> Identity | None:
        """Whose token it is; None if it is none of ours, expired or revoked. If the file can't be read, nobody's."""
        if not token.startswith(PREFIX):
            return None
        try:
            self._follow()
        except (CodemodeError, OSError) as error:
            logger.error("nobody is served with a token of `codemode-server tokens`: %s", error)  # noqa: TRY400
            return None
        record = self._by_digest.get(_digest(token))
        if record is None or not record.is_valid(self._clock()):
            return None
        return Identity(Principal(PrincipalId(record.principal)))

    def _follow(self) -> None:
        if (stamp := FileStamp.at(self.file)) != self._stamp:
            self._stamp, self._by_digest = stamp, {it.sha256: it for it in self.records()}

    @contextmanager
    def _changing(self) -> Iterator[list[TokenRecord]]:
        """The tokens to change; written when the block is left without an exception."""
        try:
            folder = private_folder(self._folder, "state.dir in upstream.yaml", is_readable=True)
            with held(folder / f"{FILE_NAME}.lock", timeout_s=_LOCK_S):
                known = self.records()
                before = list(known)
                yield known
                if known != before:
                    replace_private(folder / FILE_NAME, _File(tokens=known).model_dump_json(indent=1).encode())
        except TimeoutError:
            raise SettingsError(f"another process has held {escaped(str(self.file))} for {_LOCK_S:g} s") from None
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> SettingsError:
        return SettingsError(f"the tokens in {escaped(str(self.file))} can't be used: {error.strerror or error}")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
