"""The commands of deploy/README.md, run as they are written, but for ports and the name of the balancer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.answering import free_port
from tests.hosts.kit import ROOT, Served, http_host, installed_command, until
from tests.hosts.test_replicas import haproxy as haproxy

pytestmark = pytest.mark.slow
TEXT = (ROOT / "deploy" / "README.md").read_text()
PORTS = ("8000", "8101", "8102")


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
    first, exchange, _ = blocks("sh", ports)
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
