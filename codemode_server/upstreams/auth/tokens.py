"""The tokens of one server: the sign-in as it is stored, which token a request carries, and one renewal at a time over
tasks and processes."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codemode_server.domain.errors import CodemodeError, SecretUnavailable
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.secrets.store import SIGN_IN
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings

_EARLY_S = 30.0
"""A token is renewed this long before it expires, or a tenth of its time: clocks differ, and a request takes time."""
_MIN_MASKED_CHARACTERS = 6
_LOOK_S = 3.0
"""How often a server that waits for a sign-in looks whether there is one."""
_READ_AGAIN_S = 10.0
"""How long a sign-in is used before it is read again: the person may have signed out, or in as somebody else."""
_RENEWAL_S = 25.0
"""Longest that a renewal takes: less than other processes wait for the lock of the token."""


class SignIn(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    """The server's address in `upstream.yaml` when the person signed in. Tokens are sent to no other."""
    resource: str
    """The resource that the tokens were asked for (RFC 8707)."""
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    client: dict[str, Any] = Field(repr=False)
    """The client as registered, in mcp's form."""
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    renew_at: float | None = None
    """From when on it is renewed before it is sent, in seconds since the epoch; None: once it is refused."""
    scope: str | None = None

    @classmethod
    def from_json(cls, text: str) -> SignIn | None:
        """The sign-in that `model_dump_json` wrote; None for anything else."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            return None

    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not be shown. A shorter token protects nothing, and masking it would spoil results."""
        found = (self.access_token, self.refresh_token, self.client.get("client_secret"))
        return frozenset(value for value in found if isinstance(value, str) and len(value) >= _MIN_MASKED_CHARACTERS)

    @property
    def has_expired(self) -> bool:
        return self.renew_at is not None and time.time() > self.renew_at

    def is_for(self, url: str, settings: OAuthSettings) -> bool:
        """True if it is for this address, and for the issuer and client that the settings name."""
        return (
            self.url == url
            and (settings.issuer is None or settings.issuer.rstrip("/") == self.issuer.rstrip("/"))
            and (settings.client_id is None or settings.client_id == self.client.get("client_id"))
        )


def is_sendable(token: str) -> bool:
    """True if a token can be part of an HTTP header."""
    return re.fullmatch(r"[\x21-\x7e]{1,65536}", token) is not None


def renewal_time(expires_in: int | None) -> float | None:
    """When to renew a new token that expires in so many seconds."""
    return None if expires_in is None else time.time() + expires_in - min(_EARLY_S, expires_in / 10)


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class StoredSignIn:
    """One entry of the store. Every method raises `SecretUnavailable` if the store can't be used."""

    def __init__(self, store: EncryptedFileStore, principal: str, server: str) -> None:
        self._store = store
        self._name = f"{SIGN_IN}{principal}/{server}"

    async def read(self) -> SignIn | None:
        """The sign-in; None if there is none, or only what another version wrote."""
        text = await run_sync(self._store.get, self._name)
        return None if text is None else SignIn.from_json(text)

    async def write(self, sign_in: SignIn) -> None:
        """Store it; once this returns, it survives a crash."""
        await run_sync(self._store.set, self._name, sign_in.model_dump_json())

    async def remove(self) -> bool:
        """Forget it; False if there was none."""
        return await run_sync(self._store.remove, self._name)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock between processes. Raises `SecretUnavailable`: another process holds it for too long."""
        with anyio.CancelScope(shield=True):  # a thread that waits for the lock can't be stopped, and would keep it
            lock = self._store.lock(self._name)
            await run_sync(lock.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(partial(lock.__exit__, None, None, None))


class SignInRefused(CodemodeError):
    """Raised when the authorization server refuses a token for good; another sign-in helps."""

    code = "sign_in_refused"


class AuthorizationUnavailable(CodemodeError):
    """Raised when the authorization server can't be used now; another try may succeed."""

    code = "authorization_unavailable"


Renew = Callable[[SignIn | None], Awaitable[SignIn]]
"""Gets a new token with the refresh token of a sign-in, or with the credentials of a machine. Raises `SignInRefused`
and `AuthorizationUnavailable`."""


class ServerTokens:
    """The tokens that requests to one server carry. Nothing here raises: what prevents a token is in `problem`."""

    def __init__(
        self,
        url: str,
        settings: OAuthSettings,
        stored: StoredSignIn,
        *,
        renew: Renew,
        mask: Callable[[frozenset[str]], None],
        login: str,
    ) -> None:
        """`mask` takes what must not be shown, before it is used; `login` is the command that signs in."""
        self._url = url
        self._settings = settings
        self._stored = stored
        self._renew = renew
        self._mask = mask
        self.login = login
        self._lock = anyio.Lock()
        self._sign_in: SignIn | None = None
        self._read_at = -math.inf
        self._refused_token = self._why_refused = ""
        self._why_unusable = ""
        self.problem = ""
        """Why there is no token that the server takes; empty while nothing is known to be wrong."""
        self.needs_person = False
        """True if only a sign-in can fix that."""

    async def current(self) -> SignIn | None:
        """The sign-in to send, renewed if it has expired; None if there is none."""
        if anyio.current_time() - self._read_at > _READ_AGAIN_S:
            async with self._lock:
                await self._read()
        if self._sign_in is not None and self._sign_in.has_expired:
            return await self.after_refusal(self._sign_in) or self._sign_in
        return self._sign_in

    async def after_refusal(self, refused: SignIn | None) -> SignIn | None:
        """Another sign-in than the one that the server refused; None if there is none, then `problem` says why."""
        async with self._lock:
            if self._is_other(refused):
                return self._sign_in
            # A refresh token is used once; if this was cancelled, the one that replaces it would be lost.
            with anyio.CancelScope(shield=True):
                try:
                    async with self._stored.locked():
                        await self._read()
                        if not self._is_other(refused):
                            await self._replace()
                except (SecretUnavailable, AuthorizationUnavailable) as error:
                    self.problem, self.needs_person = str(error), False
            return self._sign_in if self._is_other(refused) else None

    def note_accepted(self) -> None:
        """The server takes requests as they are; some want a token only for some of their tools."""
        self.problem, self.needs_person = "", False

    def refuse_new(self, sign_in: SignIn) -> None:
        """The server refuses a token that was just made."""
        self._refuse(sign_in, "it refuses the token of the sign-in, although that was just made")

    def more_scopes(self, scopes: list[str]) -> str:
        """Advice where the server wants a token with these scopes."""
        if self._settings.grant == "client_credentials":
            return f"it needs the scopes {' '.join(scopes)}; add them to `oauth.scopes` of the server in upstream.yaml"
        return f"it needs more scopes; the user runs: {self.login} {' '.join(f'--scope {scope}' for scope in scopes)}"

    async def read_again(self) -> None:
        """Take what is stored by now."""
        async with self._lock:
            await self._read()

    async def wait_signed_in(self) -> None:
        """Wait until the person has signed in again."""
        while True:
            await anyio.sleep(_LOOK_S)
            await self.read_again()
            if self._sign_in is not None:
                return

    def _is_other(self, refused: SignIn | None) -> bool:
        return self._sign_in is not None and (refused is None or self._sign_in.access_token != refused.access_token)

    async def _replace(self) -> None:
        old = self._sign_in
        if self._settings.grant == "authorization_code" and (old is None or old.refresh_token is None):
            self._refuse(old, self._why_unusable if old is None else "the last sign-in has expired")
            return
        try:
            with anyio.fail_after(_RENEWAL_S):
                new = await self._renew(old)
        except TimeoutError:
            raise AuthorizationUnavailable(f"the authorization server did not answer in {_RENEWAL_S:.0f} s") from None
        except SignInRefused as error:
            if old is not None:  # a server may take it for theft if another product sends it again
                await self._stored.write(old.model_copy(update={"refresh_token": None}))
            self._refuse(old, str(error))
            return
        self._mask(new.secrets)
        await self._stored.write(new)
        self._take(new)

    async def _read(self) -> None:
        """Take what is stored, unless it is known to be refused."""
        try:
            found = await self._stored.read()
        except SecretUnavailable as error:
            self._why_unusable, found = str(error), None
        else:
            self._why_unusable = ""
        if found is not None and not found.is_for(self._url, self._settings):
            self._why_unusable = "the last one was for another address, client or authorization server"
            found = None
        if found is not None and found.access_token == self._refused_token:
            self._why_unusable, found = self._why_refused, None
        self._read_at = anyio.current_time()
        if found is None:
            self._sign_in = None
        else:
            self._mask(found.secrets)
            self._take(found)

    def _take(self, sign_in: SignIn) -> None:
        if sign_in != self._sign_in:
            self.problem, self.needs_person = "", False
        self._sign_in = sign_in

    def _refuse(self, sign_in: SignIn | None, reason: str) -> None:
        if sign_in is not None:
            self._refused_token, self._why_refused = sign_in.access_token, reason
        self._sign_in = None
        why = f" ({reason})" if reason else ""
        if self._settings.grant == "client_credentials":
            self.problem, self.needs_person = f"its client credentials get no token{why}", False
        else:
            self.problem, self.needs_person = f"needs a sign-in{why}; the user runs: {self.login}", True
