"""What packages for programs cost: to install ten usual ones, to import each, and `1 + 1` where they are mounted. Needs
PyPI; the row says so where it can't be reached."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from benchmarks.product import children, is_worker, peak_mib, processor_ms, reset_peak
from benchmarks.report import Row, milliseconds, rows_table
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.contract import Ending, Limits, Program, started
from codemode_server.sandbox.packages import installation
from codemode_server.sandbox.packages.installed import Packages
from codemode_server.sandbox.registry import SandboxSettings
from tests.sandbox.lab import Tools
from tests.sandbox.packages_lab import make_cache

IMPORTS = {
    "openpyxl": "openpyxl",
    "python-dateutil": "dateutil.parser",
    "pypdf": "pypdf",
    "beautifulsoup4": "bs4",
    "jinja2": "jinja2",
    "tabulate": "tabulate",
    "pyyaml": "yaml",
    "markdown-it-py": "markdown_it",
    "rich": "rich.table",
    "xmltodict": "xmltodict",
}
"""What programs import of each package."""
_IMPORT = "import time\nbegan = time.perf_counter()\nimport {}\n(time.perf_counter() - began) * 1e3"
_IMPORTS, _ONES = 7, 150
_MAX_RATIO = 1.1


async def rows() -> list[Row]:
    with _cache() as folder:
        settings = SandboxSettings(packages=(*IMPORTS,), packages_lock=str(folder / "pylock.packages.toml"))
        began = time.perf_counter()
        packages = await installation.ensure(settings, lambda _: None)
        seconds = time.perf_counter() - began
        what = f"set-up of {len(IMPORTS)} packages for programs"
        if packages.folder is None:
            return [Row(what, f"not measured: {packages.problem}")]
        size = sum(it.size_bytes for it in packages.installed) / 1e6
        measured = f"{seconds:.1f} s; with what they need {len(packages.installed)} packages, {size:.1f} MB"
        sources = folder / "sources"
        shutil.copytree(packages.folder, sources, ignore=shutil.ignore_patterns("__pycache__"))
        return [Row(what, measured), *await _imports(packages, sources), await _one(packages)]


async def _imports(packages: Packages, sources: Path) -> list[Row]:
    made = []
    for module in IMPORTS.values():
        compiled, worker_mib = await _milliseconds(packages, module)
        uncompiled, _ = await _milliseconds(Packages(sources, packages.installed), module)
        measured = (
            f"{compiled[0]:.0f} ms, then {statistics.median(compiled[1:]):.0f}; "
            f"not compiled {uncompiled[0]:.0f} ms, then {statistics.median(uncompiled[1:]):.0f}; "
            f"worker +{worker_mib:.0f} MiB"
        )
        made.append(Row(f"`import {module}` in WASM", measured))
    return made


async def _milliseconds(packages: Packages, module: str) -> tuple[list[float], float]:
    """Of the import in each of several programs, the first in a new worker; and by how much the worker's memory rose
    over that of `1 + 1`, MiB."""
    backend = await started(WasmBackend(packages=packages))
    try:
        await _run(backend, "1 + 1")
        (worker,) = (pid for pid in children(os.getpid()) if is_worker(pid))
        reset_peak(worker)
        await _run(backend, "1 + 1")
        before = peak_mib(worker)
        reset_peak(worker)
        times = [float(await _run(backend, _IMPORT.format(module))) for _ in range(_IMPORTS)]
        return times, peak_mib(worker) - before
    finally:
        await backend.aclose()


async def _one(packages: Packages) -> Row:
    """`1 + 1` with the packages over the same without, alternating; each is the first in every second round."""
    backends, workers = [WasmBackend(packages=packages), WasmBackend()], list[int]()
    for backend in backends:
        await started(backend)
        await _run(backend, "1 + 1")
        workers += (pid for pid in children(os.getpid()) if is_worker(pid) and pid not in workers)
    times: tuple[list[float], list[float]] = ([], [])
    processor: tuple[list[float], list[float]] = ([], [])
    """Of the host and the worker: it tells a difference from what other programs of the machine take."""
    for number in range(_ONES):
        for index in (0, 1) if number % 2 else (1, 0):
            before = processor_ms(os.getpid()) + processor_ms(workers[index])
            times[index].append(await milliseconds(lambda: _run(backends[index], "1 + 1")))  # noqa: B023 - awaited here
            processor[index].append(processor_ms(os.getpid()) + processor_ms(workers[index]) - before)
    for backend in backends:
        await backend.aclose()
    (mounted, without), (used, used_without) = map(statistics.median, times), map(statistics.median, processor)
    ratio = mounted / without
    measured = f"{ratio:.2f} x ({mounted:.2f} over {without:.2f} ms; processor {used:.2f} over {used_without:.2f} ms)"
    what = "`1 + 1` with packages for programs, over the same without"
    return Row(what, measured, f"under {_MAX_RATIO} x", ratio < _MAX_RATIO)


async def _run(backend: WasmBackend, code: str) -> float:
    outcome = await backend.run(Program(ExecutionId("x0"), code, Limits()), Tools())
    assert outcome.ending is Ending.RETURNED, outcome
    assert isinstance(outcome.value, (int, float)), outcome
    return outcome.value


@contextmanager
def _cache() -> Iterator[Path]:
    """A folder that is the user's cache meanwhile, with nothing but the compiled sandbox."""
    variable = "XDG_CACHE_HOME"
    usual = os.environ.get(variable)
    with tempfile.TemporaryDirectory() as name:
        make_cache(Path(name))
        os.environ[variable] = name
        try:
            yield Path(name)
        finally:
            os.environ.pop(variable)
            if usual is not None:
                os.environ[variable] = usual


if __name__ == "__main__":
    print(rows_table(anyio.run(rows)))
