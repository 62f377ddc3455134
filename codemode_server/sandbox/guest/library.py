"""The standard-library modules and time zones that are included when the guest is built."""

from __future__ import annotations

import contextlib
import importlib
import importlib.resources
import io
import pkgutil
import sys
import zoneinfo
import zoneinfo._common
from typing import IO

from .replacements import replace_members

_data: dict[str, bytes] = {}


def take_in_zones() -> None:
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


_LEFT_OUT = {
    "antigravity",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "test",
    "this",
    "tkinter",
    "turtle",
    "turtledemo",
}
_ENCODINGS = """
ascii base64_codec big5 charmap cp1250 cp1251 cp1252 cp437 cp850 gb18030 gbk hex_codec idna iso8859_1 iso8859_15
iso8859_2 koi8_r latin_1 mac_roman punycode quopri_codec raw_unicode_escape rot_13 shift_jis unicode_escape utf_16
utf_16_be utf_16_le utf_32 utf_7 utf_8 utf_8_sig zlib_codec
"""


def take_in() -> None:
    """Import everything there is; what this build of Python lacks stays out."""
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
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
