"""What holds a hostile program in a microVM: it is a Linux process that may nothing, on a machine that has nothing.

Every attack has beside it what an honest program can do in the same place, so that a pass can't mean that nothing ran.
"""

# ruff: noqa: E501, ASYNC240 - short programs read best on one line; the files are small

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from codemode_server.sandbox.contract import Ending, SandboxBackend
from tests.sandbox.lab import MICROVM, SLOWNESS, Lab, Tools
from tests.tables import rows, tables

pytestmark = [pytest.mark.asyncio(loop_scope="session"), *MICROVM]
TABLES = tables(__file__)
REFUSED = {"EPERM", "EACCES", "EROFS", "ENOENT", "ESRCH", "ENOSPC", "ENOSYS", "EINVAL", "EAFNOSUPPORT"}
"""What the kernel says to one who may not, or of what is not there; of user namespaces it says that there is no room."""
PROBE = """
import ctypes, errno, os, platform, resource, signal, socket, subprocess, time
libc = ctypes.CDLL(None, use_errno=True)
numbers = {
    "x86_64": {"init_module": 175, "kexec_load": 246, "perf_event_open": 298, "process_vm_readv": 310, "bpf": 321, "add_key": 248, "userfaultfd": 323},
    "aarch64": {"init_module": 105, "kexec_load": 104, "perf_event_open": 241, "process_vm_readv": 270, "bpf": 280, "add_key": 217, "userfaultfd": 282},
}[platform.machine()]
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
    return "done"
def system_call(name, *arguments):
    return call("syscall", numbers[name] if isinstance(name, str) else name, *arguments)
def write(path, text):
    with open(path, "w") as file: file.write(text)
    return "done"
def read_at_an_address(pid):
    here = ctypes.create_string_buffer(8)
    mine = (ctypes.c_void_p * 2)(ctypes.addressof(here), 8)
    theirs = (ctypes.c_void_p * 2)(4_096, 8)
    try:
        system_call("process_vm_readv", pid, mine, 1, theirs, 1, 0)
    except OSError as error:
        if error.errno != errno.EFAULT: raise  # nothing is at this address, where one may read at all
def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except ValueError as error:
        return "EPERM" if "not allowed to raise" in str(error) else str(error)
    return "done"
"""
BOOT_ID = "open('/proc/sys/kernel/random/boot_id').read().strip()"
OTHERS = """
import os
def others():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/status') as file: status = dict(line.split(':', 1) for line in file)
        except OSError:
            continue
        if status['Uid'].split()[0] == '65534' and int(pid) != os.getpid() and 'Z' not in status['State']:
            found.append(status['Name'].strip())
    return sorted(found)
"""


@pytest.fixture
def backend(microsandbox: SandboxBackend) -> SandboxBackend:
    return microsandbox


async def attempts(lab: Lab, actions: dict[str, str], before: str = "") -> dict[str, str]:
    """What comes of each action: the name of an error, or "done"."""
    tried = ", ".join(f"{name!r}: attempt(lambda: {action})" for name, action in actions.items())
    found: dict[str, str] = await lab.value(f"{PROBE}\n{before}\n{{{tried}}}")
    return found


def done_of(found: dict[str, str]) -> dict[str, str]:
    """The attacks that were not refused."""
    return {name: came for name, came in found.items() if came not in REFUSED}


async def test_a_program_is_nobody_and_can_become_nobody_else(lab: Lab) -> None:
    code = """
import os, subprocess
with open("/proc/self/status") as file: status = {name: text.strip() for name, _, text in (line.partition(":") for line in file)}
capabilities = [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
become = subprocess.run(["su", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
own = subprocess.run(["id", "-u"], capture_output=True, text=True).stdout
[os.getresuid(), os.getresgid(), os.getgroups(), capabilities, status["NoNewPrivs"], own, become]
"""
    nobody = [65_534] * 3
    assert await lab.value(code) == [nobody, nobody, [], [0] * 4, "1", "65534\n", ""]


PRIVILEGED = TABLES["privileged"]
ALLOWED = TABLES["allowed"]


async def test_nothing_that_takes_a_privilege_is_done(lab: Lab) -> None:
    boot = await lab.value(BOOT_ID)
    found = await attempts(lab, PRIVILEGED | ALLOWED, before="write('/tmp/own', '')")
    assert {name: found.pop(name) for name in ALLOWED} == dict.fromkeys(ALLOWED, "done")
    assert done_of(found) == {}
    assert await lab.value(BOOT_ID) == boot, "the machine went on"


ON_A_PROCESS = TABLES["on_a_process"]


@pytest.mark.parametrize("target", ["1", "os.getppid()"], ids=["init", "supervisor"])
async def test_the_keeper_and_init_can_not_be_touched(lab: Lab, target: str) -> None:
    boot = await lab.value(BOOT_ID)
    own = await attempts(lab, ON_A_PROCESS, before="pid = subprocess.Popen(['sleep', '60']).pid\ntime.sleep(1)")
    assert own == dict.fromkeys(ON_A_PROCESS, "done"), "what can be done to a process of one's own"
    found = await attempts(lab, ON_A_PROCESS, before=f"pid = {target}")
    found.pop("take a file of it")  # gives no error of its own: -1 is no file, which closing it says
    assert done_of(found) == {}
    assert await lab.value(f"{PROBE}\nlibc.syscall(438, os.pidfd_open({target}), 1, 0)") == -1
    assert await lab.value(BOOT_ID) == boot


WRITABLE = """
import os
def writes(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True
found = []
for folder, folders, files in os.walk("/"):
    if folder == "/proc":
        folders[:] = [name for name in folders if not name.isdigit() and name not in ("self", "thread-self")]
    if writes(f"{folder}/written-by-a-program", os.O_CREAT | os.O_WRONLY):
        found.append(folder)
        folders[:] = []
    else:
        found += [path for path in (f"{folder}/{name}" for name in files) if not os.path.islink(path) and writes(path, os.O_WRONLY)]
sorted(path.replace("//", "/") for path in found)
"""
DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "vsock")} | {
    "/dev/pts/ptmx"
}


async def test_nothing_can_be_written_but_scratch_folders_and_the_workspace(lab: Lab, workspace: Path) -> None:
    """Every folder and every file there is was tried, those of /proc and /sys too."""
    found = set(await lab.value(WRITABLE))
    assert found >= {"/tmp", "/workspace"}
    assert found - DEVICES - {"/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/workspace"} == set()
    assert [path.name for path in workspace.iterdir()] == ["written-by-a-program"]


async def test_nothing_of_the_host_is_told(lab: Lab) -> None:
    """Its environment has these when the microVM boots; nor does the machine's own name or its boot show."""
    told = [os.environ["CODEMODE_VM_IMAGE"], "CODEMODE_VM", "MSB_HOME", "PYTEST_CURRENT_TEST"]
    code = """
import glob, os
texts = {}
for path in ["/proc/cmdline", "/proc/self/environ", "/proc/1/environ", *glob.glob("/proc/[0-9]*/environ"), *glob.glob("/.msb/**", recursive=True)]:
    try:
        with open(path, "rb") as file: texts[path] = file.read(2**20).decode("latin-1")
    except OSError:
        pass
texts["environment"] = repr(dict(os.environ))
texts["boot"] = open('/proc/sys/kernel/random/boot_id').read()
texts["name"] = os.uname().nodename
texts
"""
    texts = await lab.value(code)
    assert "PATH" in texts["environment"]
    assert "console" in texts["/proc/cmdline"]
    assert {(path, word) for path, text in texts.items() for word in told if word in text} == set()
    assert texts["boot"] != Path("/proc/sys/kernel/random/boot_id").read_text()
    assert texts["name"] != socket.gethostname()


ADDRESSES = ["127.0.0.1", "::1", "10.0.2.2", "10.0.2.15", "192.168.127.1", "192.168.127.254", "169.254.169.254"]
ADDRESSES += ["1.1.1.1", "2606:4700:4700::1111"]


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[str]]]:
    """A listener of the host's on all its addresses; its port, and what has come in."""
    arrived: list[str] = []
    listener = await anyio.create_tcp_listener(local_host="0.0.0.0")

    async def note(stream: anyio.abc.SocketStream) -> None:
        arrived.append("here")
        await stream.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, note)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), arrived
        tasks.cancel_scope.cancel()
    await listener.aclose()


async def test_nothing_reaches_the_host_over_a_network(lab: Lab) -> None:
    """Inside there is a loopback of its own; what goes over it arrives, and no farther."""
    own = [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None)]
    async with listening() as (port, arrived):
        with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("0.0.0.0", 0))
            datagrams.setblocking(False)
            code = f"""
import socket, threading
def reached(address, port):
    try:
        with socket.create_connection((address, port), {2 * SLOWNESS}) as stream:
            return stream.recv(4).decode()
    except OSError as error:
        return type(error).__name__
def datagram(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (address, {datagrams.getsockname()[1]}))
    except OSError:
        pass
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    stream, _ = listener.accept()
    stream.sendall(b"mine")
threading.Thread(target=serve, daemon=True).start()
control = reached("127.0.0.1", listener.getsockname()[1])
found = []
for address in {[*ADDRESSES, *own]!r}:
    datagram(address)
    if (came := reached(address, {port})) in ("", "mine"): found.append((address, came))
[control, found]
"""
            assert await lab.value(code) == ["mine", []]
            assert arrived == []
            with pytest.raises(BlockingIOError):
                datagrams.recv(1)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert arrived == ["here"]


async def test_the_host_takes_no_second_connection(lab: Lab) -> None:
    """Nothing listens any more where the supervisor connected; a program can't make such a socket anyway."""
    await lab.value("1")
    backend: Any = lab.backend
    machine = backend.pool.of_sessions["lab", lab.workspace][-1]
    assert not list(backend._run.folder.glob(f"{machine.name[-6:]}*"))
    assert (await lab.error("import socket\nsocket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)"))[0] == "OSError"


async def test_frames_of_a_process_left_behind_do_not_reach_the_next_program(lab: Lab) -> None:
    """It has the socket of its parent, which a fork keeps."""
    code = (
        lab.raw
        + """
import itertools, os
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    while os.getppid() == parent:
        pass
    for number in itertools.count(10**6):
        send(op="output", stream="stdout", text="from the last program")
        send(op="call", id=number, server="github", tool="echo", arguments={})
"first"
"""
    )
    for _ in range(3):
        assert await lab.value(code) == "first"
        tools = Tools()
        outcome = await lab.run(f"import time\nprint('mine')\ntime.sleep({0.1 * SLOWNESS})\n2", tools)
        assert (outcome.value, outcome.stdout, tools.calls) == (2, "mine\n", [])


async def test_a_program_may_have_processes_and_not_too_many(lab: Lab) -> None:
    code = """
import os, subprocess, time
said = subprocess.run(["echo", "honest"], capture_output=True, text=True).stdout
count = 0
try:
    while count < 10_000:
        if os.fork() == 0:
            time.sleep(1_000)
            os._exit(0)
        count += 1
except BlockingIOError:
    pass
[said, count]
"""
    said, count = await lab.value(code)
    assert said == "honest\n"
    assert 20 < count < 1_000
    assert await lab.value(f"{OTHERS}\nothers()") == []


@pytest.mark.parametrize("bomb", rows(TABLES["bombs"]))
async def test_a_bomb_ends_and_the_next_program_runs(lab: Lab, bomb: str) -> None:
    outcome = await lab.run(f"import os, time\n{bomb}", wall_seconds=1.0 * SLOWNESS)
    assert outcome.ending is not Ending.RETURNED
    assert await lab.value("6 * 7") == 42
    assert await lab.value(f"{OTHERS}\nothers()") == []


SCRATCH = ["/tmp", "/var/tmp", "/dev/shm", "/run/lock"]


@pytest.mark.parametrize("folder", SCRATCH)
async def test_a_scratch_folder_can_be_filled_only_so_far_and_is_empty_for_the_next_program(
    lab: Lab, folder: str
) -> None:
    fill = f"import time\nwith open('{folder}/filler', 'wb', 0) as file:\n    while True: file.write(bytes(2**20))"
    assert await lab.limit(fill, workspace_mb=4) == "limits.workspace_mb"
    assert await lab.value(f"import os\nos.listdir('{folder}')") == []
    leave = f"import os\nopen('{folder}/left', 'wb').write(bytes(2**20))\nos.listdir('{folder}')"
    assert await lab.value(leave) == ["left"]
    assert await lab.value(f"import os\nos.listdir('{folder}')") == []


@pytest.mark.parametrize("leave", rows(TABLES["left"]))
async def test_whatever_is_left_is_gone_for_the_next_program(lab: Lab, leave: str) -> None:
    """Folders too deep to be measured may end the program for its quota; what it left is gone all the same."""
    look = "print(os.listdir('/tmp'), len(open('/proc/sysvipc/shm').readlines()))"
    outcome = await lab.run(f"import os, socket\nopen('/tmp/x', 'w').close()\n{leave}\n{look}")
    assert outcome.ending in (Ending.RETURNED, Ending.LIMITED), outcome
    assert outcome.stdout not in ("", "[] 1\n")
    assert (await lab.run(f"import os\n{look}")).stdout == "[] 1\n"


async def test_a_session_keeps_its_microvm_and_no_other_session_gets_it(lab: Lab) -> None:
    """Each machine has a boot of its own, as has the host."""
    first = await lab.value(f"open('/tmp/mine', 'w').close()\n{BOOT_ID}", session="ada")
    other = await lab.value(BOOT_ID, session="bob")
    assert await lab.value(BOOT_ID, session="ada") == first
    assert await lab.value(BOOT_ID, session="bob") == other
    for session in ("ada", "bob"):
        await lab.end(session)
    assert (
        len({first, other, await lab.value(BOOT_ID), Path("/proc/sys/kernel/random/boot_id").read_text().strip()}) == 4
    )


async def test_what_a_program_makes_in_the_workspace_is_harmless_on_the_host(lab: Lab, workspace: Path) -> None:
    """No device, no file that runs as its owner, none that others may read, and none that belongs to anybody else."""
    code = f"""{PROBE}
write("/workspace/tool", "x")
made = {{
    "mode": attempt(lambda: os.chmod("/workspace/tool", 0o6777)),
    "owner": attempt(lambda: os.chown("/workspace/tool", 0, 0)),
    "device": attempt(lambda: os.mknod("/workspace/device", 0o20666, os.makedev(1, 3))),
    "attribute": attempt(lambda: os.setxattr("/workspace/tool", "security.capability", bytes(20))),
}}
os.mkdir("/workspace/folder", 0o777)
[made, oct(os.stat("/workspace/tool").st_mode), os.stat("/workspace/tool").st_uid]
"""
    made, mode, owner = await lab.value(code)
    assert {name: came for name, came in made.items() if name != "mode" and came == "done"} == {}
    assert (mode[-3:], owner) == ("777", 65_534)
    for path in [workspace / "tool", workspace / "folder"]:
        status = path.lstat()
        assert status.st_mode & 0o7077 == 0, oct(status.st_mode)
        assert status.st_uid == os.getuid()
