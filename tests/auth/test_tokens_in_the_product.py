"""Tokens in a running product: missing, expired, revoked, refreshed by several at once, never shown or misdirected."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from codemode_server import cli
from tests import fork_server
from tests.answering import free_port
from tests.auth import kit
from tests.behaviour.product import Host, in_memory, over_stdio
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.network]

WHO = "from servers.protected import whoami\nreturn whoami()"
FORGET = "from servers.protected import forget_token, whoami\nforget_token()\nreturn whoami()"


async def test_a_server_without_a_sign_in_says_so_everywhere_and_connects_after_one(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"codemode-server login protected --config {config}"
    async with in_memory(config) as host:
        assert f"needs a sign-in; the user runs: {command}" in (await host.call("list_dir", path="/servers")).text
        assert command in (await host.call("search_tools", query="who is signed in")).text
        error = (await host.run(WHO)).error
        assert command in error["message"]
        await anyio.to_thread.run_sync(kit.signed_in, config)
        await host.until(lambda: _can_call(host))
    kit.store(config.parent).remove("oauth/default/protected")
    assert await anyio.to_thread.run_sync(cli.run, ["status", "--config", str(config)]) == 1
    shown = capsys.readouterr().out
    assert "needs a sign-in" in shown
    assert command in shown


async def _can_call(host: Host) -> bool:
    listing = (await host.call("list_dir", path="/servers")).text
    return "unavailable" not in listing and "connecting" not in listing and (await host.run(WHO)).value == "ada"


async def test_a_token_that_expires_in_the_middle_of_a_program_is_renewed(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    before = await kit.person_signs_in(tmp_path, protected.url)
    refreshed = issuing.grants("refresh_token")
    async with in_memory(config) as host:
        assert (await host.run(FORGET)).value == "ada"
    after = kit.stored(tmp_path)
    assert issuing.grants("refresh_token") == refreshed + 1
    assert after.access_token != before.access_token
    assert after.refresh_token != before.refresh_token


async def test_a_revoked_sign_in_is_a_clear_error_and_its_refresh_token_is_not_sent_again(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    found = await kit.person_signs_in(tmp_path, protected.url)
    async with in_memory(config) as host:
        assert (await host.run(WHO)).value == "ada"  # the control
        issuing.revoke(found)
        refreshed = issuing.grants("refresh_token")
        error = (await host.run(WHO)).error
        assert "needs a sign-in" in error["message"]
        assert "'invalid_grant'" in error["message"]
        assert "nothing was called" in error["message"]
        assert "needs a sign-in" in (await host.run(WHO)).error["message"]
    assert issuing.grants("refresh_token") == refreshed + 1


async def test_a_missing_scope_names_the_command_that_asks_for_it(
    config: Path, tmp_path: Path, protected: kit.ProtectedServer
) -> None:
    write = "from servers.protected import write_note\nreturn write_note(text='a')"
    await kit.person_signs_in(tmp_path, protected.url, None, "read")
    async with in_memory(config) as host:
        error = (await host.run(write)).error
        assert f"the user runs: codemode-server login protected --config {config} --scope write" in error["message"]
    await anyio.to_thread.run_sync(kit.signed_in, config, "protected", "--scope", "write")
    assert set((kit.stored(tmp_path).scope or "").split()) >= {"read", "write"}
    async with in_memory(config) as host:
        assert (await host.run(write)).value == "written: a"


async def test_two_products_that_refresh_at_once_use_the_refresh_token_once(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    """oidc-provider takes a second use for theft and ends the sign-in."""
    await kit.person_signs_in(tmp_path, protected.url)
    async with in_memory(config) as one, over_stdio(config) as other:
        assert [(await host.run(WHO)).value for host in (one, other)] == ["ada", "ada"]
        refreshed = issuing.grants("refresh_token")
        await one.run("from servers.protected import forget_token\nforget_token()")
        values: list[str] = []

        async def ask(host: Host) -> None:
            values.append((await host.run(WHO)).value)

        async with anyio.create_task_group() as tasks:
            for host in (one, other, one):
                tasks.start_soon(ask, host)
        assert values == ["ada"] * 3
        assert issuing.grants("refresh_token") == refreshed + 1


async def test_a_product_that_is_killed_during_a_refresh_leaves_a_usable_state(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    """The refresh token is used by then, and nothing can bring the new one back: another sign-in does."""
    before = await kit.person_signs_in(tmp_path, protected.url)
    expired = before.model_copy(update={"renew_at": 1.0})
    kit.store(tmp_path).set("oauth/default/protected", expired.model_dump_json())
    refreshed = issuing.grants("refresh_token")
    issuing.control(delay_ms=20_000)
    command = fork_server.command("-m", "codemode_server", "status", "--config", str(config))
    product = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        await until(lambda: issuing.grants("refresh_token") != refreshed, kit.PATIENCE_S)
    finally:
        os.kill(product.pid, signal.SIGKILL)
        product.wait()
        issuing.control(delay_ms=0)
    assert kit.stored(tmp_path) == expired
    async with in_memory(config) as host:
        assert "needs a sign-in" in (await host.run(WHO)).error["message"]
        await anyio.to_thread.run_sync(kit.signed_in, config)
        await host.until(lambda: _can_call(host))


async def test_a_token_for_another_address_is_not_sent(
    config: Path, tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer
) -> None:
    await kit.person_signs_in(tmp_path, protected.url)
    port = free_port()
    with kit.protected_server(tmp_path, port, issuing.issuer, name="other.log") as other:
        edited = kit.configured(tmp_path, {"protected": {"url": other.url}})
        async with in_memory(edited) as host:
            error = (await host.run(WHO)).error
            assert "the last one was for another address" in error["message"]
        assert set(other.tokens()) == {"-"}
    async with in_memory(kit.configured(tmp_path, {"protected": {"url": protected.url}})) as host:
        assert (await host.run(WHO)).value == "ada"  # the control


@pytest.fixture
def machine(tmp_path: Path, issuing: kit.AuthorizationServer, protected: kit.ProtectedServer) -> Callable[..., Path]:
    """Makes the configuration of a machine with these credentials."""
    common = {"grant": "client_credentials", "issuer": issuing.issuer}
    return lambda **oauth: kit.configured(tmp_path, {"protected": {"url": protected.url, "oauth": common | oauth}})


async def test_a_machine_gets_its_tokens_by_itself(tmp_path: Path, machine: Callable[..., Path]) -> None:
    (tmp_path / ".env").write_text("MACHINE_SECRET=machine-secret-123\n")
    (tmp_path / ".env").chmod(0o600)
    secret = {"client_secret": "${MACHINE_SECRET}", "token_endpoint_auth_method": "client_secret_basic"}
    async with in_memory(machine(client_id="machine", **secret)) as host:
        assert (await host.run(WHO)).value == "nobody", "the token of a machine names no person"
        assert (await host.run(FORGET)).value == "nobody"
    assert "machine-secret-123" not in kit.store(tmp_path).get("oauth/default/protected")  # type: ignore[operator]


async def test_wrong_credentials_of_a_machine_are_named(machine: Callable[..., Path]) -> None:
    async with in_memory(machine(client_id="machine", client_secret="wrong-secret-12345")) as host:
        listed = (await host.call("list_dir", path="/servers")).text
        assert "its client credentials get no token" in listed
        assert "wrong-secret" not in listed


async def test_no_token_is_in_the_log_the_records_or_the_state_folder(
    config: Path, tmp_path: Path, protected: kit.ProtectedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    before = await kit.person_signs_in(tmp_path, protected.url)
    async with in_memory(config) as host:
        assert (await host.run(FORGET)).value == "ada"
    after = kit.stored(tmp_path)
    secrets = before.secrets | after.secrets
    assert len(secrets) == 4
    assert [secret for secret in secrets if secret in caplog.text] == []
    stored = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert stored
    assert [secret for secret in secrets if any(secret.encode() in content for content in stored)] == []
