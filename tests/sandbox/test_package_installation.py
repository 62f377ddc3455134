"""Packages for programs: what `sandbox.packages` lists is installed and can be imported, in a real WASM sandbox. The
index is the test's own, on loopback; uv is real."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import anyio
import pytest

from codemode_server.cli.config import examine, trust
from codemode_server.config import load
from codemode_server.sandbox.packages import installation
from codemode_server.sandbox.packages.installed import Packages
from tests.sandbox.package_index import Index, wheel
from tests.sandbox.packages_lab import Installer, run, skip_without_network

CLOSED = "127.0.0.1:1"
"""Where nobody listens."""
GREETING: dict[str, str | bytes] = {
    "greeting/__init__.py": "from .words import hello\n",
    "greeting/words.py": "hello = 'hello'\n",
}


async def test_a_listed_package_and_what_it_needs_are_installed_once_and_imported(
    install: Installer, index: Index
) -> None:
    index.add("greeting", GREETING, requires=["greeting-words>=1"])
    index.add("greeting-words", {"more_words.py": "bye = 'bye'\n"})
    made = await install("greeting")
    assert made.problem == ""
    assert [(it.name, it.version, it.modules, it.wasm_obstacle) for it in made.installed] == [
        ("greeting", "1.0", ("greeting",), ""),
        ("greeting-words", "1.0", ("more_words",), ""),
    ]
    code = "import greeting, more_words\n[greeting.hello, more_words.bye, greeting.__cached__, greeting.__file__]"
    compiled = "/packages/greeting/__pycache__/__init__.cpython-314.pyc"
    outcome = await run(made, code)
    assert outcome.value == ["hello", "bye", compiled, "/packages/greeting/__init__.py"], outcome.error
    assert any("installing 2 packages for programs: greeting, greeting-words" in it for it in install.announced)
    index.requests.clear()
    install.announced.clear()
    assert await install("greeting") == made == installation.find(install.settings("greeting"))
    assert index.requests == install.announced == [], "from the lock and the folder, without a network"


async def test_a_changed_list_is_resolved_again_and_prefers_the_versions_that_were_locked(
    install: Installer, index: Index
) -> None:
    index.add("greeting", GREETING)
    index.add("other", {"other.py": ""})
    await install("greeting")
    index.add("greeting", GREETING, version="2.0")
    assert [it.version for it in (await install("greeting")).installed] == ["1.0"]
    assert [(it.name, it.version) for it in (await install("greeting", "other")).installed] == [
        ("greeting", "1.0"),
        ("other", "1.0"),
    ]
    assert [it.version for it in (await install("greeting>=2")).installed] == ["2.0"]
    install.lock.unlink()
    assert [it.version for it in (await install("greeting")).installed] == ["2.0"], "without a lock, the newest"


async def test_a_lock_that_the_product_writes_into_a_trusted_project_is_trusted_and_another_is_not(
    install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(install.folder / "data"))
    index.add("greeting", GREETING)
    (install.folder / "upstream.yaml").write_text("sandbox: {packages: [greeting]}")
    trust(examine(install.folder))

    def is_used() -> bool:
        return load(None, environ={}, cwd=install.folder).settings.sandbox.packages == ("greeting",)

    assert is_used(), "before there is a lock"
    assert (await install("greeting")).problem == ""
    assert is_used()
    install.lock.write_text(install.lock.read_text().replace(index.address, "http://127.0.0.1:1"))
    assert not is_used()


async def test_a_committed_lock_gives_the_same_versions_elsewhere(
    install: Installer, index: Index, package_cache: Path
) -> None:
    index.add("greeting", GREETING)
    made = await install("greeting")
    lock = install.lock.read_bytes()
    install.forget(package_cache)
    index.add("greeting", GREETING, version="2.0")
    index.requests.clear()
    assert await install("greeting") == made
    assert index.requests == ["/files/greeting/greeting-1.0-py3-none-any.whl"], "uv is not asked"
    assert install.lock.read_bytes() == lock


PROBLEMS = {
    "an unknown package": (
        ["greeting", "graeting"],
        "the package index has no package graeting",
        "correct its name in sandbox.packages",
    ),
    "an unknown dependency": (
        ["needy"],
        "the package index has no package nowhere",
        "one of these needs it: needy",
    ),
    "no such version": (
        ["greeting>9"],
        "no versions fit together: Because ",
        "change the versions",
    ),
    "a conflict": (["needs-one", "needs-two"], "no versions fit together: Because ", "change the versions"),
    "only for another Python": (["old"], "old: no version that fits has a wheel for Python 3.14 on ", "others would"),
}


@pytest.mark.parametrize("kind", PROBLEMS)
async def test_what_cant_be_installed_is_named_with_what_to_do(install: Installer, index: Index, kind: str) -> None:
    packages, problem, remedy = PROBLEMS[kind]
    index.add("greeting", GREETING)
    index.add("greeting", GREETING, version="2.0")
    index.add("needy", {"needy.py": ""}, requires=["nowhere"])
    index.add("needs-one", {"needs_one.py": ""}, requires=["greeting==1.0"])
    index.add("needs-two", {"needs_two.py": ""}, requires=["greeting==2.0"])
    index.add_file("old", "old-1.0-cp39-cp39-manylinux_2_17_x86_64.whl", wheel("old", {"old.py": ""}))
    made = await install(*packages)
    assert made.problem.startswith(problem)
    assert made.remedy.startswith(remedy)
    assert (made.folder, made.installed) == (None, ())
    assert not install.lock.exists()
    assert (await run(made, "1 + 1")).value == 2, "programs run without packages"
    assert installation.find(install.settings(*packages)).problem == f"{', '.join(packages)}: not installed yet"


async def test_without_a_network_nothing_is_installed_and_what_is_there_is_used(
    install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add("greeting", GREETING)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    made = await install("greeting")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://{CLOSED}/simple")
    assert await install("greeting") == made, "control"
    offline = await install("greeting", "more")
    assert offline.problem.startswith(f"the package index {CLOSED} can't be read (")
    assert offline.remedy == "once there is a network, run `codemode-server setup`, and restart the host"
    install.lock.write_text(install.lock.read_text().replace(index.address, f"http://{CLOSED}"))
    shutil.rmtree(str(made.folder))
    (made.folder or install.folder).parent.joinpath("packages.json").unlink()
    assert await install("greeting") == made, "from the wheels that were fetched"


async def test_a_wheel_that_cant_be_fetched_is_named(install: Installer, index: Index, package_cache: Path) -> None:
    index.add("greeting", GREETING)
    await install("greeting")
    install.forget(package_cache)
    install.lock.write_text(install.lock.read_text().replace(index.address, f"http://{CLOSED}"))
    made = await install("greeting")
    assert made.problem.startswith("the package greeting 1.0 can't be downloaded: ")
    assert made.remedy == "once there is a network, run `codemode-server setup`, and restart the host"


async def test_without_uv_the_person_learns_how_to_install_it(
    install: Installer, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV", str(install.folder / "no-uv"))
    made = await install("greeting")
    assert made.problem == "uv can't be started: No such file or directory"
    assert made.remedy.startswith("run: ")
    assert "[packages]" in made.remedy


async def test_a_lock_that_cant_be_written_names_its_setting(install: Installer, index: Index) -> None:
    index.add("greeting", GREETING)
    install.lock = install.folder / "missing" / "pylock.packages.toml"
    made = await install("greeting")
    assert made.problem == f"the lock '{install.lock}' can't be written: No such file or directory"
    assert made.remedy == "set sandbox.packages_lock to a path in a folder that you can write to"


async def test_two_products_that_install_at_once_install_once(install: Installer, index: Index) -> None:
    index.add("greeting", GREETING)
    found: list[Packages] = []

    async def one() -> None:
        found.append(await install("greeting"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert found[0].problem == ""
    assert found[1:] == found[:1] * 2
    assert sum("installing" in it for it in install.announced) == 1


async def test_what_a_killed_installation_left_is_removed_by_the_next(
    install: Installer, index: Index, package_cache: Path
) -> None:
    index.add("greeting", GREETING)
    await install("greeting")
    left = package_cache / "making" / "files"
    left.mkdir(parents=True)
    (left / "half.py").write_text("")
    index.add("other", {"other.py": ""})
    made = await install("other")
    assert made.problem == ""
    assert made.folder is not None
    assert not (made.folder / "half.py").exists()
    assert not left.exists()


async def test_what_was_not_used_for_long_is_removed(install: Installer, index: Index, package_cache: Path) -> None:
    index.add("greeting", GREETING)
    index.add("other", {"other.py": ""})
    old = await install("greeting")
    assert old.folder is not None
    long_ago = time.time() - 100 * 86_400
    for path in [old.folder.parent, *(package_cache / "wheels").iterdir()]:
        os.utime(path, (long_ago, long_ago))
    new = await install("other")
    assert new.folder is not None
    assert not old.folder.exists()
    assert len(list((package_cache / "wheels").iterdir())) == 1
    assert (await run(new, "import other\n'here'")).value == "here"


async def test_a_full_disk_is_named(install: Installer, index: Index, package_cache: Path) -> None:
    """In a process whose files can't grow, since no test fills a disk."""
    index.add("greeting", {**GREETING, "greeting/data": os.urandom(2**18)})
    await install("greeting")
    install.forget(package_cache)
    code = f"""
import anyio, resource
from codemode_server.cli.config import examine, trust
from codemode_server.config import load
from codemode_server.sandbox.packages import installation
from codemode_server.sandbox.registry import SandboxSettings
settings = SandboxSettings(packages=("greeting",), packages_lock={str(install.lock)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (2**17, 2**17))
made = anyio.run(installation.ensure, settings, print)
print(made.problem, made.remedy, sep="\\n")
"""
    ran = await anyio.run_process([sys.executable, "-c", code])
    assert ran.stdout.decode().splitlines()[-2:] == [
        "the folder of the packages can't be filled: File too large",
        "make room on the disk, and start again",
    ]


async def test_what_cant_work_in_wasm_has_the_reason(install: Installer, index: Index) -> None:
    """One with native code may work without it; one whose modules mostly fail, or that needs such a one, does not."""
    native = "demo_native/_fast.cpython-314-x86_64-linux-gnu.so"
    part = "from demo_native import _fast\n"
    index.add("native", {native: "", **{f"demo_native/{it}.py": part for it in ("__init__", "a", "b")}})
    fallback = "try:\n    from demo_pure import _fast\nexcept ImportError:\n    _fast = None\n"
    fast = {native.replace("native/", "pure/"): "", "demo_pure/fast.py": "import demo_pure._fast\n"}
    index.add("fallback", {**fast, "demo_pure/__init__.py": fallback, "demo_pure/a.py": "", "demo_pure/b.py": ""})
    index.add("above", {"above.py": "import demo_native.a\n"})
    index.add("squeezed", {"squeezed.py": "import bz2\n"})
    index.add("partly", {"partly.py": "", "partly_more.py": "import bz2\n"})
    made = await install("native", "fallback", "above", "squeezed", "partly")
    assert {it.name: it.wasm_obstacle for it in made.installed} == {
        "above": "it needs native, which has native code",
        "fallback": "",
        "native": "it has native code, which the WASM sandbox can't run",
        "partly": "",
        "squeezed": "it needs the module 'bz2', which the WASM sandbox does not have",
    }
    assert made.modules(in_wasm=True) == {"demo_pure", "partly", "partly_more"}
    assert made.modules(in_wasm=False) >= {"demo_native", "above", "squeezed"}


@pytest.mark.network
async def test_real_packages_from_the_real_index(package_cache: Path, tmp_path: Path) -> None:
    """Two of them have native code, and work by their modules in Python."""
    install = Installer(tmp_path)
    made = await install("openpyxl", "python-dateutil", "PyYAML", "jinja2")
    skip_without_network(made.problem)
    assert made.problem == ""
    assert {it.name: it.wasm_obstacle for it in made.installed}.items() >= dict.fromkeys(
        ("openpyxl", "et-xmlfile", "python-dateutil", "pyyaml", "jinja2", "markupsafe"), ""
    ).items()
    code = """
import io, openpyxl, yaml, jinja2, dateutil.parser
book = openpyxl.Workbook()
book.active.append([1, "a"])
file = io.BytesIO()
book.save(file)
[
    openpyxl.load_workbook(io.BytesIO(file.getvalue())).active["B1"].value,
    yaml.safe_load("a: [1, 2]"),
    jinja2.Template("{{ x }}!").render(x="y"),
    dateutil.parser.parse("3 March 2026").isoformat(),
]
"""
    outcome = await run(made, code)
    assert outcome.value == ["a", {"a": [1, 2]}, "y!", "2026-03-03T00:00:00"], outcome.error
