"""Time zones without files: the data of the tzdata package, taken in when the sandbox is built."""

from __future__ import annotations

import importlib.resources
import io
import zoneinfo
import zoneinfo._common
from typing import IO

from .replacements import replace_members

_data: dict[str, bytes] = {}


def take_in() -> None:
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
