"""Packages are untrusted: a wheel that somebody made to do harm is refused with its name, or what is harmful of it is
left out, and nothing of it runs outside the sandbox. Each attack has a control: the package without it can be imported.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.processes import file_lock
from codemode_server.sandbox.packages import installation, unpacking
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.sandbox.packages.unpacking import MAX_FILES
from tests.sandbox.package_index import Index, entry, files_below, source_distribution, wheel
from tests.sandbox.packages_lab import Installer, run

GOOD = {"parcel/__init__.py": "weight = 3\n", "parcel/data.txt": "some data"}
EVIL = "raise SystemExit('evil')\n"


async def imported(packages: Packages) -> Any:
    assert packages.problem == ""
    outcome = await run(packages, "import parcel\nparcel.weight")
    assert outcome.error is None
    return outcome.value


def refused(path: str, why: str, **more: Any) -> Any:
    return pytest.param({"entries": [(entry(path, **more), EVIL.encode())]}, why, id=path)


REFUSED = [
    refused("../evil.py", "has a file with the path '../evil.py'"),
    refused("parcel/../../evil.py", "has a file with the path"),
    refused("parcel-2.0.data/purelib/../../evil.py", "has a file with the path"),
    refused("/evil.py", "has a file with the path '/evil.py'"),
    refused("//evil.py", "has a file with the path"),
    refused("..\\evil.py", "has a file with the path"),
    refused("C:/evil.py", "has a file with the path"),
    refused("parcel/./evil.py", "has a file with the path"),
    refused("parcel/evil.py\u202e", "has a file with the path"),
    refused("parcel/" + "e" * 300 + ".py", "has a path of more than 240 bytes"),
    refused("parcel/evil", "has a link or device", kind=stat.S_IFLNK),
    refused("parcel/evil.fifo", "has a link or device", kind=stat.S_IFIFO),
    refused("parcel/evil.dev", "has a link or device", kind=stat.S_IFCHR),
    refused("json.py", "would replace the module 'json' of the sandbox"),
    refused("json/evil.py", "would replace the module 'json'"),
    refused("_json.py", "would replace the module '_json'"),
    refused("ctypes/__init__.py", "would replace the module 'ctypes'"),
    refused("ctypes.cpython-314-x86_64-linux-gnu.so", "would replace the module 'ctypes'"),
    refused("parcel-2.0.data/purelib/json.py", "would replace the module 'json'"),
    refused("servers/evil.py", "would replace the module 'servers'"),
    refused("codemode.py", "would replace the module 'codemode'"),
    refused("skills/__init__.py", "would replace the module 'skills'"),
    refused("parcel/DATA.txt", "has 'parcel/DATA.txt', which parcel has as 'parcel/data.txt'"),
    refused("Parcel/evil.py", "has 'Parcel', which parcel has as 'parcel'"),
    refused("parcel/data.txt/evil.py", "has 'parcel/data.txt/evil.py' in what is a file"),
    pytest.param(
        {"files": {**GOOD, "parcel/zeros": b""}, "declared": {"parcel/zeros": 3 * 2**30}}, "more than 2 GiB", id="zeros"
    ),
    pytest.param(
        {"files": {**GOOD, "parcel/zeros": bytes(50 * 2**20)}, "declared": {"parcel/zeros": 100}},
        "is a broken archive",
        id="more zeros than declared",
    ),
    pytest.param(
        {"files": {**GOOD, **{f"{number}": "" for number in range(MAX_FILES)}}},
        "50,000 files",
        id="many files",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        {"files": {**GOOD, **{f"{'d' * 200}{number}": "" for number in range(25_000)}}},
        "50,000 files",
        id="a large table of contents",
        marks=pytest.mark.slow,
    ),
]


async def test_a_wheel_without_an_attack_is_installed_and_imported(install: Installer, index: Index) -> None:
    """The control of the attacks below, which add to this wheel."""
    index.add("parcel", GOOD)
    assert await imported(await install("parcel")) == 3
    more = [(entry("parcel/more.py"), b"more = 4"), (entry("parcel/folder/", kind=stat.S_IFDIR), b"")]
    index.add("parcel", {**GOOD, "other.py": ""}, version="2.0", entries=more)
    made = await install("parcel==2.0")
    assert await imported(made) == 3
    assert (await run(made, "import other, parcel.more\nparcel.more.more")).value == 4


@pytest.mark.parametrize(("evil", "why"), REFUSED)
async def test_a_hostile_wheel_is_refused_and_leaves_nothing(
    install: Installer, index: Index, evil: dict[str, Any], why: str
) -> None:
    index.add("parcel", **({"files": GOOD} | evil), version="2.0")
    before = files_below(install.folder)
    made = await install("parcel")
    assert made.problem.startswith("the package parcel 2.0 ")
    assert why in made.problem
    assert made.remedy == "take the package from sandbox.packages"
    assert (made.folder, made.installed) == (None, ())
    left = sorted(path.rpartition("/")[0] for path in files_below(install.folder) - before)
    packages = "cache/codemode-server/packages"
    assert left == ["", packages, f"{packages}/wheels"], "the locks, and the wheel as it was fetched"


LEFT_OUT: dict[str, str | bytes] = {
    "evil.pth": "import evil_start\n",
    "sitecustomize.py": EVIL,
    "usercustomize.py": EVIL,
    "parcel-1.0.data/scripts/evil": f"#!python\n{EVIL}",
    "parcel-1.0.data/data/bin/evil": EVIL,
    "parcel-1.0.data/headers/evil.h": "",
    "parcel-1.0.data/purelib/evil.pth": "import evil_start\n",
    "parcel/__pycache__/__init__.cpython-314.pyc": b"evil",
    "parcel/evil.pyc": b"evil",
    "tests/evil.py": EVIL,
}


async def test_what_would_start_by_itself_is_left_out(install: Installer, index: Index) -> None:
    """The rest of the wheel is installed, also what it has in `.data/purelib`; no file can be executed."""
    moved = {"parcel-1.0.data/purelib/parcel_more.py": "more = 4\n"}
    points = {"parcel-1.0.dist-info/entry_points.txt": "[console_scripts]\nevil = parcel:evil\n"}
    index.add("parcel", {**GOOD, **LEFT_OUT, **moved, **points})
    made = await install("parcel")
    assert await imported(made) == 3
    assert made.folder is not None
    assert {path for path in files_below(made.folder) if "dist-info" not in path} == {
        *GOOD,
        "parcel_more.py",
        "parcel/__pycache__/__init__.cpython-314.pyc",
        "__pycache__/parcel_more.cpython-314.pyc",
    }
    assert (made.folder / "parcel/__pycache__/__init__.cpython-314.pyc").read_bytes() != b"evil"
    modes = {path.stat().st_mode & 0o111 for path in made.folder.rglob("*") if path.is_file()}
    assert modes == {0}


async def test_two_packages_cant_have_one_file(install: Installer, index: Index) -> None:
    """So that no package changes another one. The same file in both, as some have it in common, is no harm."""
    index.add("parcel", {**GOOD, "shared/__init__.py": "# common\n"})
    index.add("same", {"shared/__init__.py": "# common\n", "shared/more.py": ""})
    assert await imported(await install("parcel", "same")) == 3, "control"
    index.add("other", {"parcel/__init__.py": EVIL})
    made = await install("parcel", "other")
    assert made.problem == "the package parcel 1.0 and other have 'parcel/__init__.py'"
    index.add("upper", {"Parcel/more.py": EVIL})
    made = await install("parcel", "upper")
    assert made.problem == "the package upper 1.0 has 'Parcel', which parcel has as 'parcel'"


async def test_no_package_puts_a_module_in_place_of_that_of_another(install: Installer, index: Index) -> None:
    """Python takes a folder before native code, and that before a file in Python of the same name."""
    index.add("parcel", {**GOOD, "parcel/inner.py": "", "parcel_one.py": ""})
    for path in ("parcel/inner/__init__.py", "parcel/inner.abi3.so", "parcel/__init__.so", "parcel_one/__init__.py"):
        index.add("thief", {path: EVIL})
        made = await install("parcel", "thief")
        assert made.problem == f"the package thief 1.0 has '{path}', a module that parcel has"
        install.lock.unlink()
    index.add("thief", {"parcel/more/__init__.py": "", "other.py": "", "other/__init__.py": ""})
    assert await imported(await install("parcel", "thief")) == 3, "control"


async def test_nothing_is_built_on_the_host(install: Installer, index: Index, tmp_path: Path) -> None:
    """Building runs `setup.py`: of a package that has no wheel, or that a wheel needs by an address."""
    marker = tmp_path / "marker"
    setup = f"open({str(marker)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='evil', version='1.0')\n"
    await anyio.run_process([sys.executable, "-c", setup.splitlines()[0]])
    assert marker.exists(), "control: this is what it would do"
    marker.unlink()
    index.add_file("evil", "evil-1.0.tar.gz", source_distribution("evil", setup))
    made = await install("evil")
    assert made.problem.startswith("evil: no version that fits has a wheel for Python 3.14 on ")
    index.add("parcel", GOOD, requires=[f"evil @ {index.address}/files/evil/evil-1.0.tar.gz"])
    made = await install("parcel")
    assert "evil" in made.problem
    index.add("parcel", GOOD, requires=["evil"])
    assert "evil: no version that fits has a wheel" in (await install("parcel")).problem
    assert not marker.exists()
    index.add("evil", {"evil.py": ""})
    assert await imported(await install("parcel")) == 3, "control: with a wheel it is installed"


async def test_a_file_that_is_not_the_locked_one_is_refused(
    install: Installer, index: Index, package_cache: Path
) -> None:
    index.add("parcel", GOOD)
    assert await imported(await install("parcel")) == 3, "control"
    install.forget(package_cache)
    served = index.files["parcel"]["parcel-1.0-py3-none-any.whl"]
    index.files["parcel"]["parcel-1.0-py3-none-any.whl"] = served[:-30] + bytes(8) + served[-22:]
    made = await install("parcel")
    assert made.problem == "the package parcel 1.0 is not the file that the lock has the hash of"
    index.files["parcel"]["parcel-1.0-py3-none-any.whl"] = served + served
    made = await install("parcel")
    assert made.problem == "the package parcel 1.0 is larger than its lock says"
    assert files_below(package_cache) == {"install.lock"}, "nothing is left of it"
    index.files["parcel"]["parcel-1.0-py3-none-any.whl"] = served
    assert await imported(await install("parcel")) == 3, "control"


async def test_a_lock_of_somebody_else_is_not_trusted(install: Installer, index: Index, package_cache: Path) -> None:
    """It may name a file that uv would not take, or that is not in an index at all."""
    index.add("parcel", GOOD)
    assert await imported(await install("parcel")) == 3, "control"
    good = install.lock.read_text()
    packed = wheel("parcel", GOOD, entries=[(entry("parcel/evil", packing=zipfile.ZIP_BZIP2), bytes(2**20))])
    url, content = f"{index.address}/files/parcel/parcel-1.0-py3-none-any.whl", index.files["parcel"].popitem()[1]
    index.add_file("parcel", "parcel-1.0-py3-none-any.whl", packed)
    digest, served = (hashlib.sha256(it).hexdigest() for it in (content, packed))
    for old, new, problem in (
        (f"size = {len(content)}", f"size = {2**40}", "the package parcel 1.0 is larger than 512 MiB"),
        (url, "file:///etc/passwd.whl", f"'{install.lock}' is no lock of packages: packages.0.wheels.0.url"),
        (url, f"{index.address}/parcel.tar.gz", f"'{install.lock}' is no lock of packages: packages.0.wheels.0.url"),
        (url, "http://[1/parcel-1.0-py3-none-any.whl", "the package parcel 1.0 can't be downloaded: "),
        (url, f"http://{'a' * 70}.b/parcel-1.0-py3-none-any.whl", "the package parcel 1.0 can't be downloaded: "),
        (url, f"{index.address}/other-any.whl", "the package parcel 1.0 can't be downloaded: status 404"),
        (url, "http://[::1/parcel-any.whl", "the package parcel 1.0 can't be downloaded: Invalid port"),
        (url, url.replace("/files", "/a" * 2_000), f"'{install.lock}' is no lock of packages: it is too large"),
        ("[[packages]]", f"a = {'[' * 3_000}\n[[packages]]", f"'{install.lock}' is no lock of packages: maximum rec"),
        (digest, "../../evil", f"'{install.lock}' is no lock of packages: packages.0.wheels.0.hashes.sha256"),
        ('name = "parcel"', 'name = "../parcel"', f"'{install.lock}' is no lock of packages: packages.0.name"),
        ("[[packages]]", "[packages", f"'{install.lock}' is no lock of packages: "),
        (f"size = {len(content)}, ", "", "the package parcel 1.0 is not the file that the lock has the hash of"),
    ):
        install.forget(package_cache)
        install.lock.write_text(good.replace(old, new))
        assert good != install.lock.read_text(), old
        assert (await install("parcel")).problem.startswith(problem)
    install.lock.write_text(good.replace(f"size = {len(content)}", f"size = {len(packed)}").replace(digest, served))
    assert (await install("parcel")).problem == "the package parcel 1.0 is packed in an unusual way"
    index.add_file("parcel", "parcel-1.0-py3-none-any.whl", content)
    install.lock.write_text(good)
    assert await imported(await install("parcel")) == 3, "control"


async def test_a_lock_that_is_no_file_is_not_waited_for(install: Installer, index: Index, tmp_path: Path) -> None:
    """A link in a repository may point to what never ends, such as the pipe of the host's messages."""
    index.add("parcel", GOOD)
    os.mkfifo(tmp_path / "pipe")
    install.lock.symlink_to(tmp_path / "pipe")
    assert installation.find(install.settings("parcel")).problem.endswith("it is not a regular file")
    assert (await install("parcel")).problem.endswith("it is not a regular file")
    install.lock.unlink()
    assert await imported(await install("parcel")) == 3, "control"


async def test_what_a_lock_of_one_project_says_of_a_wheel_is_not_shown_in_another(
    install: Installer, index: Index
) -> None:
    index.add("parcel", GOOD)
    await install("parcel")
    good = install.lock.read_text()
    install.lock.write_text(good.replace('name = "parcel"', 'name = "lies"'))
    assert [it.name for it in (await install("parcel")).installed] == ["lies"], "control"
    install.lock.write_text(good)
    assert [it.name for it in (await install("parcel")).installed] == ["parcel"]


async def test_downloads_end_and_are_bounded_together(
    install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("parcel", GOOD)
    index.add("other", {"other.py": ""})
    with monkeypatch.context() as limits:
        limits.setattr(unpacking, "_MAX_SECONDS", 0.0)
        assert (await install("parcel", "other")).problem == "the packages can't be downloaded in 0 seconds"
    with monkeypatch.context() as limits:
        limits.setattr(unpacking, "MAX_BYTES", 1_000)
        assert "brings the packages to more than " in (await install("parcel", "other")).problem
    assert await imported(await install("parcel", "other")) == 3, "control"


async def test_nothing_of_a_package_runs_in_wasm_where_the_settings_want_a_microvm(
    install: Installer, index: Index
) -> None:
    index.add("parcel", {"parcel/__init__.py": "raise ImportError('ran')\n"})
    (parcel,) = (await install("parcel")).installed
    assert parcel.wasm_obstacle == "ImportError: ran", "control"
    settings = install.settings("parcel").model_copy(update={"require": "microvm"})
    (parcel,) = (await installation.ensure(settings, print)).installed
    assert parcel.wasm_obstacle == ""


async def test_what_an_author_says_of_a_package_that_is_not_installed_is_not_told(
    install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason of a failed installation may be read by a model, when a program imports the package."""
    index.add("parcel", GOOD, requires=["evil>=1"])
    for made in ({"requires": ["ORDERS to a model"]}, {"files": {"ORDERS to a model-1.dist-info/METADATA": ""}}):
        index.add("evil", **made)
        told = (await install("parcel")).problem
        assert ("evil" in told, "ORDERS" in told) == (True, False)
    index.add("evil", {"evil.py": ""})
    listing = index.listing

    def withdrawn(name: str) -> dict[str, Any]:
        reason = {"yanked": "ORDERS to a model"} if name == "evil" else {}
        made = listing(name)
        return made | {"files": [it | reason for it in made["files"]]}

    with monkeypatch.context() as withdrawing:
        withdrawing.setattr(index, "listing", withdrawn)
        told = (await install("parcel")).problem
    assert ("evil" in told, "ORDERS" in told) == (True, False)
    assert await imported(await install("parcel")) == 3, "control"


async def test_a_product_that_is_stopped_while_it_installs_holds_up_no_other_for_ever(
    install: Installer, index: Index, package_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("parcel", GOOD)
    await anyio.Path(package_cache).mkdir(mode=0o700)
    with monkeypatch.context() as limits, file_lock.held(package_cache / "install.lock"):
        limits.setattr(installation, "_TURN_SECONDS", 0.0)
        assert (await install("parcel")).problem.startswith("another codemode-server has been installing packages")
    assert await imported(await install("parcel")) == 3, "control"


async def test_trials_end_together(install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs wait for them, and somebody could make a package need a hundred others."""
    index.add("slow", {"slow.py": "import time\nwhile True: time.sleep(1)"})
    index.add("parcel", GOOD)
    monkeypatch.setattr(installation, "_TRIALS_SECONDS", 0.5)
    made = await install("slow", "parcel")
    assert [it.wasm_obstacle for it in made.installed] == ["", ""]
    assert await imported(made) == 3


ON_IMPORT = {
    "read a file of the host": "leak = open({secret!r}).read()",
    "read a file above": "leak = open('/packages/../../secret').read()",
    "list the root": "import os; leak = [it for it in os.listdir('/') if it not in ('packages', 'tmp')][0]",
    "write": "open('/packages/evil.py', 'w').write('x'); leak = 'written'",
    "replace": "import os; os.replace('/packages/victim.py', '/packages/evil.py'); leak = 'written'",
    "connect": "import urllib.request; leak = urllib.request.urlopen({address!r}).read()",
    "connect by a socket": "import socket; leak = socket.create_connection(('127.0.0.1', {port}))",
    "run a command": "import subprocess; leak = subprocess.run(['/bin/sh', '-c', 'id'])",
    "call a tool": "import client; leak = client.call_mcp_tool('files.read', {{}})",
    "read a tool": "import servers; leak = servers.files",
    "read the environment": "import os; leak = os.environ['HOME']",
}


async def test_a_module_that_is_tried_has_nothing_to_reach(install: Installer, index: Index, tmp_path: Path) -> None:
    """The trial at installation runs code of the package: in a sandbox, without tools; the folder is read-only."""
    (tmp_path / "secret").write_text("a secret of the host")
    port = index.address.rpartition(":")[2]
    told = "if leak is not None:\n    raise ImportError(f'REACHED {leak}')\n"
    for number, attempt in enumerate(ON_IMPORT.values()):
        line = attempt.format(secret=str(tmp_path / "secret"), address=index.address, port=port)
        guarded = f"leak = None\ntry:\n    {line}\nexcept Exception as error:\n    pass\n"
        index.add(f"evil-{number}", {f"evil_{number}.py": guarded + told})
    index.add("control", {"control_module.py": "leak = 'it'\n" + told})
    index.add("victim", {"victim.py": "same = True\n"})
    names = [f"evil-{number}" for number in range(len(ON_IMPORT))]
    made = await install(*names, "control", "victim")
    assert made.problem == ""
    expected = dict.fromkeys([*names, "victim"], "") | {"control": "ImportError: REACHED it"}
    assert {it.name: it.wasm_obstacle for it in made.installed} == expected, list(enumerate(ON_IMPORT))
    assert made.folder is not None
    assert (made.folder / "victim.py").read_text() == "same = True\n"
    assert not (made.folder / "evil.py").exists()
    assert "/" not in index.requests


ENDS = {
    "ends the process": ("import os; os._exit(3)", "the sandbox ended"),
    "exits": ("raise SystemExit(0)", "SystemExit: 0"),
    "takes all memory": ("held = []\nwhile True: held.append(bytearray(2**24))", "MemoryError"),
    "has an endless recursion": ("def f(): f()\nf()", "RecursionError"),
    "takes a step below the interpreter": ("import sys; sys.modules.clear()", ""),
}


async def test_a_module_that_ends_its_trial_takes_no_other_package_with_it(install: Installer, index: Index) -> None:
    for number, (code, _) in enumerate(ENDS.values()):
        index.add(f"evil-{number}", {f"evil_{number}.py": code})
    index.add("parcel", GOOD)
    made = await install(*(f"evil-{number}" for number in range(len(ENDS))), "parcel")
    assert await imported(made) == 3
    *evil, parcel = made.installed
    for package, (kind, (_, why)) in zip(evil, ENDS.items(), strict=True):
        assert why in package.wasm_obstacle, kind
    assert parcel.wasm_obstacle == ""


@pytest.mark.slow
async def test_an_import_without_end_is_ended(install: Installer, index: Index) -> None:
    index.add("evil", {"evil_module.py": "while True: pass"})
    index.add("parcel", GOOD)
    made = await install("evil", "parcel")
    assert await imported(made) == 3
    assert [it.wasm_obstacle for it in made.installed] == ["its import takes longer than 20 seconds", ""]


async def test_sources_that_cant_be_compiled_are_left_to_who_imports_them(install: Installer, index: Index) -> None:
    """The compiler is fed by the package, too: what it does not survive costs others their compiled files at most."""
    bad = {
        "bad/__init__.py": "",
        "bad/broken.py": "def (",
        "bad/nested.py": "(" * 5_000 + ")" * 5_000,
        "bad/nul.py": "\0",
    }
    index.add("bad", bad)
    index.add("parcel", GOOD)
    made = await install("bad", "parcel")
    assert await imported(made) == 3
    assert [it.wasm_obstacle for it in made.installed] == ["", ""]
    outcome = await run(made, "import bad.broken")
    assert outcome.error is not None
    assert outcome.error.type == "SyntaxError"
