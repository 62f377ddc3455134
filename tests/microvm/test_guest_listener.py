"""The host's socket for one microVM: a boot that fails or is cancelled leaves no connection open."""

from __future__ import annotations

import contextlib
from pathlib import Path

import anyio
import pytest

from codemode_server.sandbox.backends.microvm.machine import _GuestListener


@pytest.mark.parametrize("boot_fails", [True, False])
async def test_the_connection_is_closed_if_and_only_if_the_boot_fails(tmp_path: Path, boot_fails: bool) -> None:
    path = tmp_path / "guest.sock"
    with contextlib.suppress(InterruptedError):
        async with _GuestListener(path) as listener:
            guest = await anyio.connect_unix(path)
            connection = await listener.accept()
            if boot_fails:
                raise InterruptedError
    async with guest, connection:
        if boot_fails:
            with pytest.raises(anyio.EndOfStream):
                await guest.receive()
        else:
            await connection.send(b"run")
            assert await guest.receive() == b"run"
    assert not path.exists()
