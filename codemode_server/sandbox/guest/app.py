"""The entry of the WebAssembly component: what is done on import is in the image that every program starts from."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import importlib.resources
import importlib.util
import io
import pkgutil
import sys
import zoneinfo
import zoneinfo._common
from importlib.machinery import BYTECODE_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader, SourcelessFileLoader
from typing import IO, Any

import wit_world  # made by componentize-py from world.wit

from .replacements import replace_members

_LEFT_OUT = "antigravity ensurepip idlelib lib2to3 pydoc_data test this tkinter turtle turtledemo"
_ENCODINGS = """
ascii base64_codec big5 charmap cp1250 cp1251 cp1252 cp437 cp850 gb18030 gbk hex_codec idna iso8859_1 iso8859_15
iso8859_2 koi8_r latin_1 mac_roman punycode quopri_codec raw_unicode_escape rot_13 shift_jis unicode_escape utf_16
utf_16_be utf_16_le utf_32 utf_7 utf_8 utf_8_sig zlib_codec
"""


def _take_in() -> None:
    """Import everything there is; what this build of Python lacks stays out."""
    for name in sorted(sys.stdlib_module_names - {*_LEFT_OUT.split()}):
        _take(name)
    for name in _ENCODINGS.split():
        _take(f"encodings.{name}")


def _take(name: str) -> None:
    with contextlib.suppress(Exception):  # a module for another system fails in its own way
        module = importlib.import_module(name)
        if hasattr(module, "__path__") and name not in ("encodings", "ctypes"):
            for inner in pkgutil.iter_modules(module.__path__, f"{name}."):
                if not inner.name.endswith(("__main__", ".test", ".tests")):
                    _take(inner.name)


_data: dict[str, bytes] = {}


def _take_in_zones() -> None:
    """Read all zones of the `tzdata` package and serve `zoneinfo` from them."""
    root = importlib.resources.files("tzdata")
    for name in root.joinpath("zones").read_text().split():
        _data[name] = root.joinpath("zoneinfo", *name.split("/")).read_bytes()
    replace_members(zoneinfo._common, load_tzdata=_load)
    replace_members(zoneinfo, available_timezones=lambda: set(_data))


def _load(key: str) -> IO[bytes]:
    try:
        return io.BytesIO(_data[key])
    except KeyError:
        raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}") from None


def _move_zones(packages: str) -> None:
    """Have `tzdata`, whose files are not there when programs run, read those of the package of that name, if it is
    there: `dateutil` reads zones itself."""
    module, folder = importlib.import_module("tzdata"), f"{packages}/tzdata"
    module.__path__ = [folder]
    module.__spec__ = importlib.util.spec_from_file_location(
        "tzdata", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )


def _allow_copy(name: str) -> None:
    """Hold the code of a module, whose file is not there when programs run: `markdown` makes a copy of it to change."""
    loader: Any = importlib.import_module(name).__loader__
    code = loader.get_code(name)
    loader.get_code = lambda _: code


def _leave_out_native_code() -> None:
    """Find no extension modules, which can't be loaded here: a package may have the same module in Python beside."""
    loaders = (SourceFileLoader, SOURCE_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES)
    sys.path_hooks[-1] = FileFinder.path_hook(*loaders)


_take_in()
_take_in_zones()
_allow_copy("html.parser")

from . import modules, repetition, runner, warm_up, wasi  # noqa: E402 - they replace parts of what was taken in
from .calls import Calls  # noqa: E402
from .link import Link  # noqa: E402

_ADVICE = "not available in the wasm sandbox; use the standard library"
_RECURSION = 1_000
_SOON_SECONDS = 0.02
"""A program that comes so soon does not wait for a warm-up, which takes longer than it saves."""
_WARM_UPS = 20
"""Times that CPython has to run code before it has specialized it."""


class _Host:
    """The transport: two functions that the worker offers."""

    def send(self, text: str) -> None:
        wit_world.send(text)

    def receive(self, timeout_s: float | None) -> str | None:
        return wit_world.receive(-1 if timeout_s is None else max(0, round(timeout_s * 1_000_000)))


_link = Link(_Host())
_scheduler = wasi.Scheduler(_link)
_link.wait = _scheduler.wait
_calls = Calls(_link)
_host_modules = modules.install(_link, _calls, advice=_ADVICE)
_run_async = wasi.install(_scheduler)
repetition.install()


class WitWorld(wit_world.WitWorld):
    def run(self) -> None:
        sys.setrecursionlimit(_RECURSION)
        frame = _link.open(_SOON_SECONDS)
        if frame is None:
            warm_up.warm_up(_run_async)
            frame = _link.open()
        _host_modules.add(frame["modules"])
        runner.run(_link, _calls, frame, _run_async)


for _ in range(_WARM_UPS):
    warm_up.warm_up(_run_async)
sys.argv = [""]
sys.path[:] = [modules.PACKAGES_FOLDER]
_move_zones(modules.PACKAGES_FOLDER)
_leave_out_native_code()
asyncio.events._set_running_loop(None)
gc.collect()
gc.freeze()
