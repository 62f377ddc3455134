"""The way to what a privacy token stands for, for commands and pages: recorded before the person is shown it."""

from __future__ import annotations

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.config import LoadedSettings
from codemode_server.config.live import local_principal
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.privacy_tokens import TOKEN, KnownToken
from codemode_server.features.privacy.settings import PrivacySettings
from codemode_server.features.privacy.token_store import TokenStore
from codemode_server.startup.stores import state_folder
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.token_cipher import TokenCipher
from codemode_server.support.text import one_line

_MAX_LOOKED_UP = 1_000
"""Different tokens of one text that are looked up."""


def stored_tokens(loaded: LoadedSettings, thread: DatabaseThread) -> TokenStore:
    """The tokens in the state folder of the configuration."""
    settings = loaded.settings
    cipher = TokenCipher(state_folder(settings), settings.state.key)
    return TokenStore(thread, cipher, lambda: PrivacySettings.of(settings).limits)


class TokenReveals:
    """The tokens of the local principal. Every method raises `CodemodeError` if the record can't be used."""

    def __init__(self, loaded: LoadedSettings, thread: DatabaseThread) -> None:
        self._principal = local_principal(loaded.settings)
        self._tokens = stored_tokens(loaded, thread)
        self._audit = Audit(thread)

    async def known_in(self, text: str) -> list[str]:
        """The tokens in a text that stand for something, in order."""
        tokens = list(dict.fromkeys(found[0] for found in TOKEN.finditer(text)))[:_MAX_LOOKED_UP]
        known = await self._tokens.find(self._principal.principal_id, tokens)
        return [it.token for it in known if it.original is not None]

    async def find(self, token: str) -> KnownToken:
        """A token that stands for something. Raises `CodemodeError` if there is none (any more)."""
        for found in await self._tokens.find(self._principal.principal_id, [token]):
            if found.original is not None:
                return found
        raise CodemodeError(
            f"there is no token {one_line(token, 80)} (any more); `codemode-server privacy list` prints those there are"
        )

    async def reveal(self, token: str) -> KnownToken:
        """As `find`, for a person who is shown the value: the audit says so before this returns."""
        found = await self.find(token)
        principal, kind = self._principal, AuditEventKind.PRIVACY_SHOWN
        await self._audit.record(AuditEvent.by_person(kind, principal, reason=found.token))
        return found
