"""What programs import from /packages: read-only, after what is ours and the standard library, before /workspace, and
with the limits of the program that imports it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.contract import Ending, Limits, Program, SandboxBackend, started
from codemode_server.sandbox.guest.advice import NO_NETWORK
from codemode_server.sandbox.importable import IN_WASM
from codemode_server.sandbox.registry import SandboxSettings, install_packages, installed_packages
from tests.sandbox.lab import MICROVM, Lab, Tools, cases
from tests.sandbox.native import run_natively
from tests.sandbox.package_folder import make_packages

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def wasm_with_packages(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SandboxBackend]:
    packages = make_packages(tmp_path_factory.mktemp("packages") / "files")
    backend = await started(WasmBackend(packages=packages))
    yield backend
    await backend.aclose()


@pytest.fixture(params=["wasm_with_packages", pytest.param("microsandbox", marks=MICROVM)])
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    made: SandboxBackend = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def lab(backend: SandboxBackend, tmp_path: Path, request: pytest.FixtureRequest) -> Lab:
    is_wasm = backend.name == "wasm"
    return Lab(backend, tmp_path if is_wasm else request.getfixturevalue("workspace"))


async def test_a_package_is_imported_with_its_data_and_its_version(lab: Lab) -> None:
    code = """
    import importlib.metadata, importlib.resources
    import parcel, spread.part
    from parcel.inner import each
    data = importlib.resources.files("parcel").joinpath("data.txt").read_text()
    [parcel.weigh(2), each([1, 2], parcel.weigh), data, importlib.metadata.version("parcel"), spread.part.origin]
    """
    found = [4, [2, 4], "a text beside the code", "1.2", "/packages/spread/part/__init__.py"]
    assert await lab.value(code) == found


async def test_a_package_reads_the_zones_of_tzdata_itself(lab: Lab) -> None:
    code = """
    import tzdata, zoneinfo
    from importlib.resources import files
    crater = files("tzdata.zoneinfo.Moon").joinpath("Crater").read_text()
    [files("tzdata").joinpath("zones").read_text(), crater, str(zoneinfo.ZoneInfo("Europe/Berlin"))]
    """
    assert await lab.value(code) == ["Moon/Crater", "a zone", "Europe/Berlin"]


CHANGES = {
    "write": "open(folder + '/new.py', 'w').close()",
    "append": "open(folder + '/parcel_helpers.py', 'a').close()",
    "delete": "os.unlink(folder + '/parcel_helpers.py')",
    "rename": "os.rename(folder + '/parcel_helpers.py', folder + '/other.py')",
    "replace": "os.replace('/workspace/own.py', folder + '/parcel_helpers.py')",
    "change the time": "os.utime(folder + '/parcel_helpers.py', (1, 1))",
    "truncate": "os.truncate(folder + '/parcel_helpers.py', 0)",
    "make a folder": "os.mkdir(folder + '/folder')",
    "remove a folder": "os.rmdir(folder + '/empty')",
    "link": "os.symlink('own.py', folder + '/link.py')",
    "link a file out, to write it there": "os.link(folder + '/parcel_helpers.py', '/workspace/out.py')",
    "move a file out": "os.rename(folder + '/parcel_helpers.py', '/workspace/out.py')",
}


@pytest.mark.parametrize("change", cases(CHANGES, "write"))
async def test_a_program_cant_change_packages(lab: Lab, change: str) -> None:
    code = f"""
import os
open('/workspace/own.py', 'w').close()
os.makedirs('/workspace/copy/empty', exist_ok=True)
open('/workspace/copy/parcel_helpers.py', 'w').close()
def is_refused(folder):
    try:
        {change}
    except OSError:
        return True
    return False
found = [is_refused("/packages"), is_refused("/workspace/copy")]
import parcel_helpers
[*found, parcel_helpers.origin]
"""
    folder = lab.backend.packages.folder
    assert folder is not None
    before = state_of(folder)
    assert await lab.value(code) == [True, False, "/packages/parcel_helpers.py"]
    assert state_of(folder) == before


async def test_a_program_cant_change_the_mode_of_a_package(lab: Lab) -> None:
    """In a microVM the packages belong to the programs' user, so the mount has to refuse it. WASI has no modes."""
    folder = lab.backend.packages.folder
    assert folder is not None
    before = state_of(folder)
    code = """
    import os
    open("/workspace/own.py", "w").close()
    def is_changed(path):
        try:
            os.chmod(path, 0o711)
        except OSError:
            return False
        return os.stat(path).st_mode & 0o777 == 0o711
    [is_changed("/packages/parcel_helpers.py"), is_changed("/workspace/own.py")]
    """
    assert await lab.value(code) == [False, lab.backend.name == "microsandbox"]
    assert state_of(folder) == before


def state_of(folder: Path) -> dict[str, tuple[int, int, float]]:
    found = {str(it): it.stat() for it in folder.rglob("*")}
    return {path: (status.st_mode, status.st_size, status.st_mtime) for path, status in found.items()}


async def test_what_is_ours_comes_first_then_the_standard_library_then_packages_then_the_workspace(lab: Lab) -> None:
    code = """
    for name in ("json", "codemode", "servers", "parcel_helpers", "own"):
        open(f"/workspace/{name}.py", "w").write("origin = __file__")
    import json, codemode, servers, parcel_helpers, own
    [hasattr(json, "origin"), hasattr(codemode, "origin"), "origin" in vars(servers), parcel_helpers.origin, own.origin]
    """
    assert await lab.value(code) == [False, False, False, "/packages/parcel_helpers.py", "/workspace/own.py"]


async def test_any_python_imports_packages_and_takes_them_before_what_its_image_has(tmp_path: Path) -> None:
    """The guest's code of microVMs, run by the Python of the tests, which has an `idna` of its own."""
    (tmp_path / "idna" / "__pycache__").mkdir(parents=True)
    (tmp_path / "idna" / "__init__.py").write_text("origin = 'listed'")
    (tmp_path / "idna" / "__pycache__" / "__init__.cpython-314.pyc").write_bytes(b"of another Python")
    code = "import idna\n[vars(idna).get('origin'), 'site-packages' in idna.__file__]"
    program = Program(ExecutionId("x"), code, Limits())
    assert (await run_natively(program, Tools(), packages=tmp_path)).value == ["listed", False]
    assert (await run_natively(program, Tools())).value == [None, True], "the control"


@pytest.mark.portable
async def test_a_package_imports_nothing_from_the_workspace_by_way_of_the_standard_library(lab: Lab) -> None:
    """As pandas does with what it can do without."""
    code = """
    import importlib, seeking
    open("/workspace/extra.py", "w").write("origin = __file__")
    ways = [seeking.by_module, seeking.by_exec, seeking.by_name, seeking.in_a_thread]
    found = [seeking.has_found(way) for way in ways]
    [found, importlib.import_module("extra").origin]
    """
    assert await lab.value(code) == [[False] * 4, "/workspace/extra.py"]


@pytest.mark.portable
async def test_a_module_that_is_only_looked_for_is_not_there(lab: Lab) -> None:
    code = "import importlib.util\n[importlib.util.find_spec('nothing'), importlib.util.find_spec('parcel').name]"
    assert await lab.value(code) == [None, "parcel"]


@pytest.mark.portable
async def test_packages_and_skills_import_nothing_from_the_workspace(lab: Lab) -> None:
    """A program could leave there what runs in all later ones."""
    tools = Tools()
    tools.saved["own"] = "def own():\n    import extra\n"
    code = """
    open("/workspace/extra.py", "w").write("origin = __file__")
    import able
    from skills.own import own
    try:
        own()
    except ModuleNotFoundError as error:
        missing = error.name
    import extra
    [able.extra, able.by_name, missing, extra.origin]
    """
    assert await lab.value(code, tools) == [None, None, "extra", "/workspace/extra.py"]


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("open('/packages/parcel_helpers.py', 'w')", "files of packages can only be read; write to /tmp or /workspace"),
        ('raise ImportError("Can\'t connect to HTTPS URL because the SSL module is not available.")', NO_NETWORK),
    ],
)
async def test_a_failure_for_a_package_in_the_sandbox_comes_with_the_way_out(lab: Lab, code: str, hint: str) -> None:
    assert (await lab.failure(code)).hint == hint


@pytest.mark.portable
async def test_the_folder_is_not_looked_at_before_something_is_imported_from_it(lab: Lab) -> None:
    code = """
    import sys, json, codemode
    before = "/packages" in sys.path_importer_cache
    import parcel
    [before, "/packages" in sys.path_importer_cache]
    """
    assert await lab.value(code) == [False, True]


async def test_a_folder_that_was_removed_is_named_with_the_command(tmp_path: Path) -> None:
    backend = await started(WasmBackend(packages=make_packages(tmp_path / "files")))
    try:
        assert await Lab(backend, None).value("import parcel\nparcel.weigh(1)") == 2
        shutil.rmtree(tmp_path / "files")
        with pytest.raises(SandboxUnavailable) as raised:
            await Lab(backend, None).run("1")
    finally:
        await backend.aclose()
    assert raised.value.reason == f"the folder of the packages for programs, {tmp_path / 'files'}, was removed"
    assert raised.value.remedy == "`codemode-server setup` installs them"


async def test_native_code_beside_a_module_in_python_is_not_tried_in_wasm(wasm_with_packages: SandboxBackend) -> None:
    lab = Lab(wasm_with_packages, None)
    assert await lab.value("import speedups\nspeedups.origin") == "/packages/speedups.py"


async def test_a_package_may_change_a_copy_of_a_module(wasm_with_packages: SandboxBackend, tmp_path: Path) -> None:
    """As `markdown` does, from the loader of the module in the standard library, whose file is not in WASM."""
    code = """
    import html.parser, importlib.util
    spec = importlib.util.find_spec("html.parser")
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.HTMLParser.CDATA_CONTENT_ELEMENTS = ()
    [copy.HTMLParser.__name__, copy is html.parser, len(html.parser.HTMLParser.CDATA_CONTENT_ELEMENTS) > 0]
    """
    assert await Lab(wasm_with_packages, tmp_path).value(code) == ["HTMLParser", False, True]


async def test_the_check_knows_what_can_be_imported(wasm_with_packages: SandboxBackend) -> None:
    importable: Any = wasm_with_packages.importable
    assert {"parcel", "spread"} < importable - IN_WASM
    assert "quick" not in importable


async def test_sandbox_nodes_have_no_packages() -> None:
    """The nodes of other machines may be of another kind, and have no folder of this one's."""
    nodes = {"backend": "remote", "nodes": ["127.0.0.1:1"], "node_token": "a" * 32}
    listed = SandboxSettings.model_validate({**nodes, "packages": ["openpyxl"]})
    assert (await install_packages(listed, print)).problem == "sandbox nodes have no packages"
    assert installed_packages(listed).problem == "sandbox nodes have no packages"
    assert installed_packages(SandboxSettings.model_validate(nodes)).problem == "", "the control"


@pytest.mark.portable
async def test_output_and_threads_of_a_package_are_those_of_the_program(lab: Lab) -> None:
    outcome = await lab.run("import loud, working\nsorted(working.results)")
    assert (outcome.ending, outcome.value) == (Ending.RETURNED, [0, 1, 2])
    assert (outcome.stdout, outcome.stderr) == ("imported\n", "to stderr\n")


@pytest.mark.portable
@pytest.mark.parametrize("module", ["ending", "leaving"])
async def test_a_package_that_ends_the_program_does_what_the_program_would(lab: Lab, module: str) -> None:
    own = {"ending": "import os\nos._exit(0)", "leaving": "import sys\nsys.exit('left')"}[module]
    outcome, expected = await lab.run(f"import {module}"), await lab.run(own)
    assert outcome.ending is expected.ending
    assert outcome.error is not None
    assert expected.error is not None
    assert (outcome.error.type, outcome.error.message) == (expected.error.type, expected.error.message)
    assert await lab.value("import parcel\nparcel.weigh(1)") == 2, "the next program is not affected"


@pytest.mark.portable
async def test_the_memory_of_a_package_is_the_programs(lab: Lab) -> None:
    assert await lab.value("import hungry\nlen(hungry.held)", memory_mb=400) == 200 * 2**20
    outcome = await lab.run("import hungry", memory_mb=128)
    assert outcome.error is not None
    assert outcome.error.type in ("MemoryError", "LimitExceeded")


@pytest.mark.portable
async def test_the_time_of_an_import_is_the_programs(lab: Lab) -> None:
    assert await lab.limit("import endless", wall_seconds=2) == "limits.wall_seconds"


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "line", "shown"),
    [
        ("import parcel\n\nparcel.weigh(-1)", 3, "line 3: parcel.weigh(-1)"),
        (
            "from parcel.inner import each\ndef halve(x):\n    return x / 0\neach([1], halve)",
            3,
            "line 4: each([1], halve)\nline 3, in halve: return x / 0",
        ),
        ("import broken", 1, "line 1: import broken"),
    ],
)
async def test_a_traceback_shows_the_programs_own_lines(lab: Lab, code: str, line: int, shown: str) -> None:
    error = await lab.failure(code)
    assert error.line == line
    assert error.traceback.rpartition("\n")[0] == shown
