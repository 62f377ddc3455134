"""The commands of deploy/README.md, run as they are written, but for ports and the name of the balancer; and the
services of deploy/compose.yaml as processes on this machine, with their commands, variables and health checks.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from ruamel.yaml import YAML

from codemode_server.domain.principals import principal_id
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from tests.answering import free_port
from tests.hosts.kit import PRODUCT, ROOT, Served, http_host, installed_command, until
from tests.hosts.test_replicas import cluster
from tests.hosts.test_replicas import haproxy as haproxy
from tests.sandbox.nodes import node
from tests.storage.postgres import Cluster as Postgres

pytestmark = pytest.mark.slow
TEXT = (ROOT / "deploy" / "README.md").read_text()
PORTS = ("8000", "8101", "8102")
COMPOSE = ROOT / "deploy" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = YAML(typ="safe").load(COMPOSE.read_text())["services"]


def blocks(language: str, ports: dict[str, str]) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r":(8\d\d\d)\b", lambda port: f":{ports[port[1]]}", block) for block in found]


async def test_the_commands_give_replicas_of_which_one_is_exchanged(tmp_path: Path) -> None:
    ports = {port: str(free_port()) for port in PORTS}
    (tmp_path / "upstream.yaml").write_text(blocks("yaml", ports)[0])
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    command = installed_command(tmp_path)
    if command.parent != tmp_path:
        (tmp_path / "codemode-server").symlink_to(command)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin:/sbin",
        "PYTHONPATH": str(ROOT),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    _, first, exchange, _ = blocks("sh", ports)
    script = (
        f"set -e\n{first}\ntouch served\nwhile [ ! -e go-on ]; do sleep 0.1; done\n{exchange}\ntouch exchanged\nwait\n"
    )
    shell = subprocess.Popen(("bash", "-c", script), cwd=tmp_path, env=environment, start_new_session=True)
    try:
        until((tmp_path / "served").exists)
        token = re.search(r"[\w-]{43,}", (tmp_path / "ada.token").read_text())
        assert token
        balancer = Served(shell, int(ports["8000"]), tmp_path / "data")
        async with http_host(balancer, tmp_path, "auto", Authorization=f"Bearer {token[0]}") as host:
            assert "42" in (await host.run("6 * 7")).text
            (tmp_path / "go-on").touch()
            until((tmp_path / "exchanged").exists)
            assert "42" in (await host.run("6 * 7")).text
    finally:
        with suppress(FileNotFoundError):
            os.kill(int((tmp_path / "haproxy.pid").read_text()), signal.SIGTERM)
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(60)


@contextmanager
def streamed(folder: Path) -> Iterator[Path]:
    """What the service `audit` prints, in a file."""
    arguments = [it.replace("/data", str(folder / "data")) for it in SERVICES["audit"]["command"]]
    command = (*PRODUCT, *arguments, "--config", str(folder / "upstream.yaml"))
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    with (folder / "audit.jsonl").open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output)
    try:
        until((folder / "data" / "audit-position").exists, 60)
        yield folder / "audit.jsonl"
    finally:
        process.terminate()
        process.wait(20)


def problems(compose: str) -> str:
    command = (
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "--default-filetype",
        "yaml",
        "-",
    )
    done = subprocess.run(command, input=compose, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_services_of_compose_are_valid_and_confined() -> None:
    compose = COMPOSE.read_text()
    assert problems(compose) == ""
    assert "mem_limits" in problems(compose.replace("mem_limit", "mem_limits")), "control"
    assert "_PASSWORD: codemode" not in compose
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert "privileged" not in service, name
        secrets = [it for key, it in service.get("environment", {}).items() if key not in SHOWN]
        assert all(re.fullmatch(r"\$\{\w+:\?\}", it) for it in secrets), name
    reached = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert reached["node-a"] == reached["node-b"] == {"nodes"}
    assert [name for name, networks in reached.items() if "database" in networks] == [
        *("replica-a", "replica-b", "postgres", "audit")
    ]


SHOWN = {"LISTEN", "REPLICA_A", "REPLICA_B", "RESOLVE", "POSTGRES_USER", "POSTGRES_DB"}


def health(service: str, **replaced: str) -> None:
    """Wait until the health check of a service succeeds."""
    how, *command = SERVICES[service]["healthcheck"]["test"]
    assert how == "CMD"
    for old, new in {"python": sys.executable, **replaced}.items():
        command = [it.replace(old, new) if it != old else new for it in command]
    until(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0, 60)


async def test_the_services_of_compose_serve_a_host_as_processes(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of containers and the ports are those of this machine; the server of the tests stands for PostgreSQL's."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    commands, *_ = blocks("sh", {it: it for it in PORTS})
    commands = commands.replace("DNS:node-a,DNS:node-b", "IP:127.0.0.1")
    await anyio.run_process(("bash", "-ec", commands), cwd=tmp_path)
    folder = tmp_path / "deploy"
    given = dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines())
    (folder / ".env").unlink()  # the containers have variables alone
    for service in ("replica-a", "node-a"):
        assert SERVICES[service]["environment"].keys() <= given.keys()
    for name in SERVICES["replica-a"]["environment"]:
        monkeypatch.setenv(name, given[name])
    user, database = (SERVICES["postgres"]["environment"][it] for it in ("POSTGRES_USER", "POSTGRES_DB"))
    postgres.execute(f"CREATE USER {user} PASSWORD '{given['POSTGRES_PASSWORD']}'")
    postgres.execute(f"CREATE DATABASE {database} OWNER {user}")
    monkeypatch.setenv("PGHOST", str(postgres.folder))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{postgres.programs}")
    health("postgres")

    state = folder / "data" / "codemode-server"
    (state / "workspaces").mkdir(parents=True, mode=0o700)
    for path in (folder, folder / "data", state):
        path.chmod(0o700)
    token = AccessTokens(state).create(principal_id("ada"), None)[0]
    settings = (folder / "upstream.yaml").read_text()
    settings = settings.replace(f"{user}@postgres/{database}", f"{user}@/{database}?host={postgres.folder}")
    begin, *options = SERVICES["node-a"]["command"]
    assert (begin, options[:4]) == ("node", ["--host", "0.0.0.0", "--port", "7000"])
    places = {"/config": str(folder), "/data/codemode-server": str(state)}
    for old, new in places.items():
        options = [it.replace(old, new) for it in options]
    secret = given["CODEMODE_NODE_TOKEN"]
    async with node(*options[4:], token=secret) as one, node(*options[4:], token=secret) as other:
        for name, it in (("node-a", one), ("node-b", other)):
            settings = settings.replace(f"{name}:7000", it.address)
            await anyio.to_thread.run_sync(partial(health, name, **{"7000": str(it.port)}))
        (folder / "upstream.yaml").write_text(settings)
        assert SERVICES["haproxy"]["environment"].keys() == {"LISTEN", "REPLICA_A", "REPLICA_B", "RESOLVE"}
        assert SERVICES["replica-a"]["command"] == ["serve", "--http", "0.0.0.0:8000"]
        with cluster(folder / "upstream.yaml") as both, streamed(folder) as lines:
            for replica in both.replicas:
                health("replica-a", **{"8000": str(replica.port)})
            async with http_host(both.balancer, folder, "auto", Authorization=f"Bearer {token}") as host:
                assert "42" in (await host.run("open('/workspace/a', 'w').write('a')\n6 * 7")).text
            assert [it.read_text() for it in (state / "workspaces").rglob("a")] == ["a"]
            await anyio.to_thread.run_sync(until, lambda: '"principal": "ada"' in lines.read_text(), 60)
