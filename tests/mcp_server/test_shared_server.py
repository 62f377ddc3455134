"""One running server for one person: hosts attach to it by small processes, each with a session of its own.

Real processes; a host writes and reads raw lines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from codemode_server import __version__
from codemode_server.shim.main import STANDALONE
from tests.behaviour.person import choosing
from tests.behaviour.product import configuration, office, over_stdio
from tests.shared_server import ROOT, Person, ended, is_running, person, run, text_of, wait_for_end, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # each server is started as for a person, and a busy machine takes a minute for that
    pytest.mark.skipif(sys.platform == "win32", reason="there each host has a product of its own"),
]
LONG = """
from servers import slack
slack.get_channel_history(channel="general")
import time
while True:
    time.sleep(0.1)
"""
PROGRAM = {"name": "execute_code", "arguments": {"code": "1"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MAX_SHIM_KIB = 25 * 1024


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Person]:
    config = configuration(tmp_path, office(tmp_path, "slack", is_forked=False))
    with person(config) as it:
        yield it


def test_two_hosts_share_one_server_and_its_upstreams(ada: Person) -> None:
    hosts = [ada.host(), ada.host()]
    assert [run(host, "1 + 1").split() for host in hosts] == [["value:", "2"]] * 2
    (server,) = ada.servers()
    assert server["sessions"] == 2
    started = [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"office.py\0slack" in path.read_bytes() and str(ada.config.parent).encode() in _environment(path.parent)
    ]
    assert len(started) == 1


def _environment(process: Path) -> bytes:
    return (process / "environ").read_bytes()


def test_a_session_reads_no_result_of_another(ada: Person) -> None:
    """As over HTTP: both belong to the same person, and a model is told only what it did itself."""
    one, other = ada.host(), ada.host()
    run(one, "'secret ' * 4000")
    names = "from codemode import results\n[*results]"
    assert "x" in run(one, names), "the control"
    assert run(other, names).split() == ["value:", "[]"]


def test_a_host_does_not_keep_the_first_program_of_another_waiting(tmp_path: Path) -> None:
    limits = {"wall_seconds": 600}
    with person(configuration(tmp_path, office(tmp_path, "slack", is_forked=False), limits=limits)) as ada:
        busy, other = ada.host(), ada.host()
        run(busy, "1")
        wait_until(lambda: [it["sessions"] for it in ada.servers()] == [2])
        for number in range(6):
            call = {"name": "execute_code", "arguments": {"code": LONG}}
            busy.send({"jsonrpc": "2.0", "id": f"long {number}", "method": "tools/call", "params": call})
        reached = tmp_path / "office.log"
        wait_until(lambda: reached.exists() and reached.read_text().count("get_channel_history") >= 3)
        assert run(other, "1 + 1").split() == ["value:", "2"]


async def test_a_person_answers_for_the_sessions_of_one_host_and_no_other(tmp_path: Path) -> None:
    """The official client, in both eras of the protocol. What Ada allows in her session is asked about in Bob's."""
    rules = {"rules": [{"ask": "github/create_issue"}]}
    config = configuration(tmp_path, office(tmp_path, "github", is_forked=False), permissions=rules)
    ada, bob = choosing("Allow this tool in this session, whatever it sends"), choosing("No")
    with person(config) as it:
        environment = {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(it.data), STANDALONE: "0"}
        hosts = partial(over_stdio, config, env=environment, is_forked=False)
        async with hosts(mode="legacy", **ada.callbacks) as of_ada, hosts(mode="auto", **bob.callbacks) as of_bob:
            (server,) = it.servers()
            assert server["sessions"] == 2
            for host, title in ((of_ada, "one"), (of_bob, "two"), (of_ada, "three")):
                await host.run(f"from servers.github import create_issue\ncreate_issue('ada', 'web', {title!r})")
            assert [len([seen for seen in one.seen if seen != "roots/list"]) for one in (ada, bob)] == [1, 1]
            assert [call["title"] for call in of_ada.reached("create_issue")] == ["one", "three"]


def test_what_a_host_starts_is_small(ada: Person) -> None:
    host = ada.host()
    run(host, "1 + 1")
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) <= MAX_SHIM_KIB


def test_ten_hosts_at_once_start_one_server(ada: Person) -> None:
    hosts = [ada.start() for _ in range(10)]
    with ThreadPoolExecutor(len(hosts)) as threads:
        for answer in threads.map(lambda host: host.initialize(), hosts):
            assert "result" in answer
        list(threads.map(lambda host: host.ask("tools/call", name="list_dir", arguments={"path": "/"}), hosts))
    (server,) = ada.servers()
    assert server["sessions"] == 10


def test_a_host_with_other_variables_of_the_configuration_has_another_server(tmp_path: Path) -> None:
    """Its servers would have got the values of the other host. What the file does not name makes no difference."""
    servers = office(tmp_path, "slack", is_forked=False)
    servers["slack"]["env"]["TOKEN"] = "${TOKEN_OF_TEST}"
    with person(configuration(tmp_path, servers)) as ada:
        for environment in ({"TOKEN_OF_TEST": "1"}, {"TOKEN_OF_TEST": "1", "TERM": "other"}, {"TOKEN_OF_TEST": "2"}):
            run(ada.host(**environment), "1")
        assert sorted(it["sessions"] for it in ada.servers()) == [1, 2]


def test_a_killed_server_is_started_again_and_the_program_can_be_resumed(ada: Person) -> None:
    """The host gets an error in place of an answer that never comes, and no broken pipe; its session goes on."""
    host = ada.host()
    run(host, "1")
    (server,) = ada.servers()
    host.send(
        {
            "jsonrpc": "2.0",
            "id": "long",
            "method": "tools/call",
            "params": {"name": "execute_code", "arguments": {"code": LONG}},
        }
    )
    reached = ada.config.parent / "office.log"
    wait_until(lambda: reached.exists() and "get_channel_history" in reached.read_text())
    os.kill(server["pid"], signal.SIGKILL)
    interrupted = host.answer("long")
    assert run(host, "2 + 2").split() == ["value:", "4"]
    assert interrupted["result"]["isError"]
    text = text_of(interrupted)
    assert text.startswith("status: interrupted")
    (execution_id,) = re.findall(r"execute_code\(resume='(\w+)'\)", text)
    changed = {it["method"] for it in host.others if "method" in it}
    assert "notifications/tools/list_changed" in changed
    assert run(host, "", resume=execution_id).startswith("status: waiting"), "nobody knows whether the call arrived"
    (after,) = ada.servers()
    assert after["pid"] != server["pid"]


def test_it_ends_as_soon_after_its_only_host_as_the_configuration_says(tmp_path: Path) -> None:
    with person(configuration(tmp_path, {}, server={"idle_minutes": 0})) as ada:
        host = ada.host()
        run(host, "1")
        (server,) = ada.servers()
        ended(host.process)
        wait_for_end(server["pid"])


def test_it_ends_after_the_last_host_and_at_the_wish_of_the_person_whose_hosts_go_on(tmp_path: Path) -> None:
    with person(configuration(tmp_path, {}, server={"idle_minutes": 0})) as ada:
        host = ada.host()
        run(host, "1")
        (first,) = ada.servers()
        assert f"stopped: process {first['pid']}" in ada.command("stop")
        wait_for_end(first["pid"])
        assert ada.command("stop") == "no server is running\n"
        assert run(host, "1 + 1").split() == ["value:", "2"]
        (second,) = ada.servers()
        said = [ada.command(*line) for line in (["status"], ["doctor", "--no-boot"])]
        assert all(f"running server: process {second['pid']} since " in it for it in said)
        assert all(f", version {__version__}, 1 session, " in it for it in said)
        ended(host.process)
        wait_for_end(second["pid"])
        assert "running server: none; " in ada.command("doctor", "--no-boot")
        assert list(ada.run.glob("*.sock")) == []


def test_stop_ends_the_server_of_this_configuration_and_with_all_the_others_too(ada: Person, tmp_path: Path) -> None:
    (other_folder := tmp_path / "other").mkdir()
    other = Person(configuration(other_folder, {}), ada.data)
    try:
        for host in (ada.host(), other.host()):
            run(host, "1")
        lines = [line for line in ada.command("status").splitlines() if line.startswith("running server: ")]
        assert sorted("--all" in it for it in lines) == [False, True]
        first, second = ada.command("stop").splitlines()
        assert first.endswith(str(ada.config))
        assert second == "1 server of other configurations: `codemode-server stop --all` ends all"
        wait_until(lambda: [it["config"] for it in ada.servers()] == [str(other.config)])
        assert ada.command("stop", "--all").rstrip().endswith(str(other.config))
        wait_until(lambda: not ada.servers())
    finally:
        other.end()


def test_a_host_of_another_version_has_another_server_and_the_old_one_serves_its_hosts(
    ada: Person, tmp_path: Path
) -> None:
    before = ada.host()
    run(before, "1")
    newer = tmp_path / "newer" / "codemode_server"
    newer.mkdir(parents=True)
    newer.joinpath("__init__.py").write_text(f"__version__ = '99.0'\n__path__ = [{str(ROOT / 'codemode_server')!r}]\n")
    host = ada.start(PYTHONSAFEPATH="1", PYTHONPATH=f"{newer.parent}{os.pathsep}{ROOT}")
    assert host.initialize()["result"]["serverInfo"]["version"] == "99.0"
    assert run(host, "1 + 1").split() == ["value:", "2"]
    assert [it["sessions"] for it in ada.servers()] == [1, 1]
    assert run(before, "2 + 2").split() == ["value:", "4"]


def test_an_edit_that_waits_for_the_next_start_is_in_force_in_new_sessions(ada: Person) -> None:
    """The server of before serves its hosts to their end."""
    host = ada.host()
    run(host, "1")
    before = json.loads(ada.config.read_text())
    ada.config.write_text(json.dumps(before | {"results": {"structured_content": False}}))
    wait_until(lambda: "structuredContent" not in ada.host().ask("tools/call", **PROGRAM)["result"])
    assert "structuredContent" in host.ask("tools/call", **PROGRAM)["result"]


def test_a_host_that_reaches_no_server_has_a_product_of_its_own(ada: Person, capfd: pytest.CaptureFixture[str]) -> None:
    run(ada.host(), "1")
    ada.command("stop")
    wait_until(lambda: not ada.servers())
    (lock,) = ada.run.glob("*.lock")
    lock.unlink()
    lock.mkdir()
    host = ada.host()
    assert run(host, "1 + 1").split() == ["value:", "2"]
    assert ada.servers() == []
    assert "this host has a server of its own: " in capfd.readouterr().err


def test_where_no_socket_can_be_the_host_has_a_product_of_its_own(ada: Person) -> None:
    ada.data.joinpath("codemode-server").mkdir(mode=0o700)
    ada.run.write_text("no folder")
    host = ada.host()
    assert run(host, "1 + 1").split() == ["value:", "2"]
    assert list(ada.data.rglob("*.sock")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system says what confines another process")
@pytest.mark.parametrize("confined", ["prctl(38, 1, 0, 0, 0)", "unshare(0x50000000)"])
def test_a_process_in_a_sandbox_reaches_only_a_server_that_is_in_it_too(tmp_path: Path, confined: str) -> None:
    """A model's commands that a host runs without a network must not have that of the person's servers. The first is
    PR_SET_NO_NEW_PRIVS, which seccomp and Landlock need; the second makes namespaces of users and networks."""
    with person(configuration(tmp_path, {}, server={"idle_minutes": 0})) as ada:
        run(ada.host(), "1")
        _try_from_sandbox(ada, confined)


def _try_from_sandbox(ada: Person, confined: str) -> None:
    (path,) = ada.run.glob("*.sock")
    confine = f"import ctypes, os, socket, sys; os._exit(77) if ctypes.CDLL(None).{confined} else None"
    asks = f"""
connection = socket.socket(socket.AF_UNIX)
connection.connect({str(path)!r})
try:
    connection.sendall(b'{{"ask": "status"}}\\n')
    print(connection.recv(1000))
except ConnectionError:
    print(b"")
"""
    for before in (confine, "import socket"):
        command = [sys.executable, "-I", "-c", f"{before}\n{asks}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77:
            pytest.skip("this system lets no process make namespaces")
        assert (done.stdout == "b''\n") == (before == confine), "the control: without it, the server answers"
    inside = ada.start(sys.executable, "-c", f"{confine}\nos.execv(sys.argv[1], sys.argv[1:])")
    inside.initialize()
    assert run(inside, "1 + 1").split() == ["value:", "2"]
    assert len([*ada.run.glob("*.sock")]) == 2
    ended(inside.process)
    wait_until(lambda: [*ada.run.glob("*.sock")] == [path])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_served_even_where_the_folder_is_open(ada: Person) -> None:
    run(ada.host(), "1")
    (socket_file,) = ada.run.glob("*.sock")
    for path in (ada.data, *ada.run.parents[:1], ada.run):
        path.chmod(0o755)
    socket_file.chmod(0o777)
    ask = f"""
import os, socket
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect({str(socket_file)!r})
connection.sendall(b'{{"ask": "status"}}\\n')
print(connection.recv(1000))
"""
    said = subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True, check=False)
    assert said.stdout == "b''\n" or "ConnectionResetError" in said.stderr or "BrokenPipeError" in said.stderr
    assert len(ada.servers()) == 1, "the control: its own user is answered"


def test_a_session_of_the_newest_protocol_survives_its_server_and_hears_of_changed_lists(ada: Person) -> None:
    """It has no handshake; what it listens to is asked for again."""
    host = ada.start()
    host.ask("server/discover", _meta=META)
    listening = {"_meta": META, "notifications": {"toolsListChanged": True}}
    host.send({"jsonrpc": "2.0", "id": "heard", "method": "subscriptions/listen", "params": listening})
    host.ask("tools/call", **PROGRAM, _meta=META)
    (server,) = ada.servers()
    os.kill(server["pid"], signal.SIGKILL)
    wait_for_end(server["pid"])
    before = len(host.others)  # with the tools that the first server has listed meanwhile
    wait_until(lambda: host.ask("tools/call", **PROGRAM, _meta=META)["result"].get("isError") is False)
    methods = [it["method"] for it in host.others]
    assert methods[0] == "notifications/subscriptions/acknowledged"
    assert set(methods[before:]) == {"notifications/tools/list_changed"}


def test_what_is_no_host_is_not_served_and_harms_no_other(ada: Person) -> None:
    host = ada.host()
    run(host, "1")
    (path,) = ada.run.glob("*.sock")
    session = b'{"folder": 1, "environment": {}, "session": ""}'
    for line in (b"no JSON", b"[]", b"[" * 100_000, session, b"x" * (2 << 20)):
        with socket.socket(socket.AF_UNIX) as connection, suppress(ConnectionError):
            connection.connect(str(path))
            connection.sendall(line + b"\n")
            assert connection.recv(100) == b"", line[:100]
    silent = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    for it in silent:
        it.connect(str(path))
    assert run(ada.host(), "1 + 1").split() == ["value:", "2"]
    for it in silent:
        it.close()
    (server,) = ada.servers()
    assert server["sessions"] == 2


def test_a_session_has_one_connection_whoever_names_it(ada: Person) -> None:
    """Of connections that name one session at the same moment, the others get another one, or none."""
    run(ada.host(), "1")
    session = "0123456789abcdef" * 2
    with ThreadPoolExecutor(8) as threads:
        attached = [*threads.map(lambda _: ada.attach(session), range(8))]
    assert [answer.get("session") for _, answer in attached].count(session) == 1
    for connection, _ in attached:
        connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be set there only")
def test_more_connections_than_it_may_open_do_not_end_the_server(ada: Person) -> None:
    import resource

    host = ada.host()
    run(host, "1")
    (server,) = ada.servers()
    (path,) = ada.run.glob("*.sock")
    files = Path(f"/proc/{server['pid']}/fd")
    most = len([*files.iterdir()]) + 5
    _, hard = resource.prlimit(server["pid"], resource.RLIMIT_NOFILE)
    resource.prlimit(server["pid"], resource.RLIMIT_NOFILE, (most, hard))
    silent = list[socket.socket]()

    def is_full() -> bool:
        silent.append(socket.socket(socket.AF_UNIX))
        with suppress(ConnectionError):
            silent[-1].connect(str(path))
        return not is_running(server["pid"]) or len([*files.iterdir()]) >= most

    wait_until(is_full)
    for it in silent:
        it.close()
    assert run(ada.host(), "1 + 1").split() == ["value:", "2"]
    assert run(host, "2 + 2").split() == ["value:", "4"]
    assert [it["pid"] for it in ada.servers()] == [server["pid"]]
