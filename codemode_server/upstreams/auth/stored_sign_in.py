"""Where one principal's sign-in to one server is stored. No file work is done on the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.to_thread import run_sync

from codemode_server.secrets.store import SIGN_IN, SecretStore
from codemode_server.upstreams.auth.sign_in import SignIn


class StoredSignIn:
    """One entry of the store. Every method raises `SecretUnavailable` if the store can't be used."""

    def __init__(self, store: SecretStore, principal: str, server: str) -> None:
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
        """Hold the lock between processes.

        Raises:
            SecretLocked: another process holds it for too long.
        """
        with anyio.CancelScope(shield=True):  # a thread that waits for the lock can't be stopped, and would keep it
            lock = self._store.lock(self._name)
            await run_sync(lock.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(partial(lock.__exit__, None, None, None))
