"""Sandbox nodes in a Ray cluster, by `deploy/ray_nodes.py`: Ray starts another one while programs take their places,
stops one without loss when fewer are enough, and starts one again in place of one that is killed.

Two machines of the cluster are two addresses in a network namespace. Ray (490 MB) is installed from PyPI into
`.cache/ray`, so this runs by `make raytest` only.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.behaviour.product import PLAIN, Answer, Host, configuration
from tests.hosts.kit import PRODUCT, ROOT
from tests.processes import all_gone, children
from tests.sandbox.nodes import TOKEN
from tests.waiting import until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
        reason="needs root on Linux and iproute2, for a network of its own",
    ),
]

NETWORK = """
set -e
ip link set lo up
ip address add 10.0.0.1/24 dev lo
ip address add 10.0.0.2/24 dev lo
mount --bind "$1" /etc/hosts
echo ready
exec sleep infinity
"""
SERVER = f"""{PLAIN}
from pathlib import Path
server, folder = Server("gate"), Path(sys.argv[1])

def log(entry):
    with (folder / "received").open("a") as file:
        file.write(entry + "\\n")

@server.tool()
def enter(number: int) -> int:
    "Writes the number."
    log(f"enter {{number}}")
    return number

@server.tool(annotations={{"readOnlyHint": True}})
def wait(call: Call, number: int) -> int:
    "Writes the number, and answers once it may go on."
    log(f"wait {{number}}")
    while not (folder / f"go {{number}}").exists() and not call.cancelled.wait(0.05):
        pass
    return number

server.run()
"""
PROGRAM = "from servers.gate import enter, wait\nenter(number={0})\nwait(number={0})"
PATIENCE_S = 180.0
"""Ray takes half a minute on a busy machine to start a process."""


@pytest.fixture(scope="session")
def ray_commands() -> Path:
    """The folder with the commands of Ray; its environment sees ours, in which the product is."""
    environment = ROOT / ".cache" / "ray"
    commands = environment / "bin"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if not (commands / "serve").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([commands / "python", "-m", "pip", "install", "--quiet", *extras["ray"]], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "product.pth").write_text(sysconfig.get_path("purelib"))
    return commands


@dataclass(frozen=True)
class Cluster:
    """What runs in a network namespace, and ends with it."""

    process: subprocess.Popen[bytes]
    folder: Path
    enter: tuple[str, ...]
    environment: dict[str, str]

    def run(self, *command: str | Path) -> str:
        done = subprocess.run(
            (*self.enter, *command), env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def nodes(self) -> int:
        """How many take connections."""
        return len(re.findall(r"^\S+ +\S+ +\S+ +10\.0\.0\.\d:7000 ", self.run("ss", "-ltn"), re.M))

    def replicas(self) -> set[int]:
        """The processes in which Ray runs nodes."""
        return {pid for pid, args in children(self.process.pid).items() if args[0].startswith("ray::ServeReplica")}

    def received(self) -> list[str]:
        log = self.folder / "received"
        return log.read_text().splitlines() if log.exists() else []

    def let_go(self, number: int) -> None:
        (self.folder / f"go {number}").touch()


@pytest.fixture
def cluster(ray_commands: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Two machines with Ray, and as many nodes as are needed, one or two, four programs on each."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.0.0.1 node.example\n10.0.0.2 node.example\n")
    certificate = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=node"
    made = ["-addext", "subjectAltName=DNS:node.example", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(["openssl", *certificate.split(), *made], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "node.pem").write_text((tmp_path / "key.pem").read_text() + (tmp_path / "certificate.pem").read_text())
    (tmp_path / "token").write_text(TOKEN)
    with _network(tmp_path, ray_commands) as started:
        start = ("ray", "start", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats")
        started.run(*start, "--head", "--port=6379", "--node-ip-address=10.0.0.1", "--include-dashboard=false")
        started.run(*start, "--address=10.0.0.1:6379", "--node-ip-address=10.0.0.2")
        arguments = {"certificate": tmp_path / "node.pem", "token": tmp_path / "token", "backend": "wasm"}
        options = [f"{name}={value}" for name, value in {**arguments, "max_nodes": 2, "idle_seconds": 5}.items()]
        serve = ("serve", "run", "--non-blocking", "--address=10.0.0.1:6379", "--app-dir", ROOT / "deploy")
        started.run(*serve, "--working-dir", ROOT / "deploy", "ray_nodes:nodes", *options)
        yield started


@contextmanager
def _network(folder: Path, commands: Path) -> Iterator[Cluster]:
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    command = [*unshare, "sh", "-c", NETWORK, "sh", str(folder / "hosts")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    with process, tempfile.TemporaryDirectory(prefix="ray-") as short:  # paths of Unix sockets
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (first,) = children(process.pid)
        enter = ("nsenter", "--net", "--mount", "--pid", "--target", str(first))
        environment = {
            **os.environ,
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin",
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": short,
        }
        try:
            yield Cluster(process, folder, enter, environment)
        finally:
            os.kill(first, signal.SIGKILL)
            process.wait()  # which ends after all in the namespace


async def test_nodes_come_and_go_with_the_programs_and_no_program_is_lost_or_run_twice(cluster: Cluster) -> None:
    (cluster.folder / "gate.py").write_text(SERVER)
    path = configuration(
        cluster.folder,
        {"gate": {"command": sys.executable, "args": [str(cluster.folder / "gate.py"), str(cluster.folder)]}},
        sandbox={
            "backend": "remote",
            "nodes": ["node.example:7000"],
            "node_token": TOKEN,
            "node_ca": str(cluster.folder / "certificate.pem"),
        },
        limits={"programs": 8},
    )
    command = [*cluster.enter, *PRODUCT, "serve", "--standalone", "--config", str(path)]
    parameters = StdioServerParameters(command=command[0], args=command[1:], env={"PYTHONPATH": str(ROOT)})
    async with Client(parameters, mode="auto") as client, anyio.create_task_group() as tasks:
        host = Host(client, cluster.folder)
        await host.settled()
        answers = dict[int, Answer]()

        async def run(number: int) -> None:
            asked = {"code": PROGRAM.format(number)}
            answers[number] = Answer(await client.call_tool("execute_code", asked, read_timeout_seconds=900))

        async def nodes_are(count: int) -> None:
            """Wait for so many nodes, and for one that takes programs: a node listens a little earlier."""
            await until(lambda: cluster.nodes() == count, PATIENCE_S)
            with anyio.fail_after(PATIENCE_S):
                while ((await host.run("1 + 1")).result.structured_content or {}).get("status") != "succeeded":
                    await anyio.sleep(0.5)

        async def waits(*numbers: int) -> None:
            """Start these programs, and wait until they do."""
            for number in numbers:
                tasks.start_soon(run, number)
            await until(lambda: {f"wait {number}" for number in numbers} <= {*cluster.received()}, PATIENCE_S)

        await nodes_are(1)
        # One node is full, so that a second one comes, which takes the next program.
        await waits(1, 2, 3, 4)
        await nodes_are(2)
        await waits(5)

        # One node is enough: either ends, but not before its program.
        for number in (2, 3, 4):
            cluster.let_go(number)
        await until(lambda: cluster.nodes() == 1 and {2, 3, 4} <= answers.keys(), PATIENCE_S)
        assert answers.keys().isdisjoint({1, 5})
        for number in (1, 5):
            cluster.let_go(number)
        await until(lambda: len(answers) == 5, PATIENCE_S)
        assert {number: answer.value for number, answer in answers.items()} == {it: it for it in range(1, 6)}
        await until(lambda: len(cluster.replicas()) == 1, PATIENCE_S)

        # A node is killed in the middle of a program: it is interrupted, and goes on where the host says so.
        await waits(6)
        (killed,) = cluster.replicas()
        sandboxes = children(killed)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: 6 in answers, PATIENCE_S)
        assert "the sandbox node: it has closed the connection" in answers[6].text
        await all_gone(killed, *sandboxes)
        await nodes_are(1)
        cluster.let_go(6)
        resumed = await host.call("execute_code", resume=answers[6].content["execution_id"])
        assert resumed.value == 6
        entered = [it for it in cluster.received() if it.startswith("enter")]
        assert sorted(entered) == [f"enter {number}" for number in range(1, 7)]
