"""The configuration in force, which an edited file replaces while the product runs, and the context of a request.

Long-lived objects hold the `LiveConfig` and read it when they need a setting, so that they follow an edit at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.redaction import NO_SECRETS, Payloads, Redactor
from codemode_server.settings import Settings


class LiveConfig:
    """Current settings and redactor. Changed on the event loop only; may be read in any thread."""

    def __init__(
        self, settings: Settings | None = None, redactor: Redactor = NO_SECRETS, notices: tuple[str, ...] = ()
    ) -> None:
        self.settings = settings or Settings()
        self.redactor = redactor
        """Masks every secret of the configuration in force."""
        self.notices = notices
        """Lines for the model about what is wrong with the configuration."""
        self.revision = 0
        """Number of edits that were taken over."""
        self._changed = anyio.Event()

    @property
    def payloads(self) -> Payloads:
        return self.settings.state.payloads

    def replace(self, settings: Settings, redactor: Redactor, notices: tuple[str, ...] = ()) -> None:
        """Put an edited configuration in force and wake up everyone who waits for it."""
        self.settings, self.redactor, self.notices = settings, redactor, notices
        self.revision += 1
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait_newer(self, revision: int) -> int:
        """Wait until the configuration is newer than `revision`; returns the present revision."""
        while self.revision <= revision:
            await self._changed.wait()
        return self.revision


def local_principal(settings: Settings) -> Principal:
    """The principal of this machine's user, which only the configuration names."""
    return Principal(PrincipalId(settings.state.customer))


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, on which connection, under which configuration; passed down with each request."""

    principal: Principal
    session: Session
    config: LiveConfig

    @classmethod
    def local(cls, session: Session, config: LiveConfig) -> RequestContext:
        return cls(local_principal(config.settings), session, config)
