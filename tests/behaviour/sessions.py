"""Several sessions of several principals on one product: their programs start as those of hosts do, past the front."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.live import Caller
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.execution import Execution
from codemode_server.features.skills.store import SkillStore

_NUMBERS = itertools.count(1)


@dataclass
class Person:
    """A principal of the product that no other test has."""

    app: App
    principal: Principal = field(default_factory=lambda: Principal(PrincipalId(f"p{next(_NUMBERS)}")))

    @property
    def store(self) -> SkillStore:
        """The skills of this principal, as another process sees them."""
        return SkillStore(self.app.state_folder, self.principal)

    def context(self, session: str = "one", *, is_ephemeral: bool = False) -> Caller:
        return Caller(
            self.principal, Session(f"{self.principal.principal_id}-{session}", is_ephemeral), self.app.config
        )

    def owner(self, session: str = "one") -> Owner:
        return self.context(session).owner

    def start(self, code: str, session: str = "one", **options: Any) -> Execution:
        return self.app.executions.start(code, self.context(session, **options))

    async def run(self, code: str, session: str = "one", **options: Any) -> Execution:
        execution = self.start(code, session, **options)
        with anyio.fail_after(60):
            await execution.done.wait()
        return execution

    async def value(self, code: str, session: str = "one") -> Any:
        execution = await self.run(code, session)
        assert execution.status.value == "succeeded", execution.outcome.error
        return execution.outcome.value

    async def error(self, code: str, session: str = "one") -> str:
        execution = await self.run(code, session)
        assert execution.outcome.error is not None, execution.outcome
        return execution.outcome.error.message


@asynccontextmanager
async def product(path: Path) -> AsyncIterator[App]:
    async with App.open(load(path)) as app:
        app.connect()
        await app.tools.wait_for_listing()
        yield app
