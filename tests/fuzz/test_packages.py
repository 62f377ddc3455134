"""Wheels and locks of packages, which are somebody else's: read, or refused in one line that names them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.sandbox.packages import locked, unpacking
from codemode_server.sandbox.packages.locked import NotInstalled, Wheel
from tests.fuzz.strategies import damaged
from tests.sandbox.package_index import files_below, wheel

WHEEL = wheel("parcel", {"parcel/__init__.py": "weight = 3\n" * 20, "parcel/data.txt": "data", "parcel/a/b.py": ""})
LOCK = f"""lock-version = "1.0"
[[packages]]
name = "parcel"
version = "1.0"
wheels = [{{ url = "http://[::1]/parcel-1.0-py3-none-any.whl", size = 5, hashes = {{ sha256 = "{"a" * 64}" }} }}]
[tool.codemode-server]
requirements = ["parcel"]
python = "{locked.PYTHON}"
""".encode()
# Most of what decides is in the table of contents, at the end.
changes = st.lists(st.tuples(st.one_of(st.integers(-500, -1), st.integers(0, len(WHEEL) - 1)), st.integers(0, 255)))


def changed(content: bytes, at: list[tuple[int, int]]) -> bytes:
    made = bytearray(content)
    for place, byte in at:
        made[place % len(made)] = byte
    return bytes(made)


def reason(read: Callable[[], object]) -> str:
    try:
        read()
    except NotInstalled as error:
        return error.reason
    return ""


@given(st.one_of(damaged(st.just(WHEEL)), st.builds(changed, st.just(WHEEL), changes)))
def test_a_damaged_wheel_is_unpacked_into_its_folder_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / "files"
        target.mkdir()
        (folder / "wheel").write_bytes(content)
        found = reason(lambda: unpacking.unpack([Wheel("parcel", "1.0", "", None, "wheel")], folder, target))
        assert found == "" or (found.startswith("the package parcel 1.0 ") and found.isprintable())
        assert {path for path in files_below(folder) if not path.startswith("files/")} == {"wheel"}


@given(st.one_of(damaged(st.just(LOCK)), st.builds(changed, st.just(LOCK), changes)))
@example(LOCK + b"x = " + b"[" * 20_000)
def test_a_damaged_lock_is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        lock = Path(name, "pylock.packages.toml")
        lock.write_bytes(content)
        found = reason(lambda: locked.read(lock, ("parcel",)))
        assert found == "" or (found.startswith(f"'{lock}' is no lock of packages: ") and found.isprintable())
