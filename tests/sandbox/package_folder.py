"""A folder of packages as an installation leaves it, made by hand: what the guest sees as /packages."""

from __future__ import annotations

from pathlib import Path

from codemode_server.sandbox.packages.installed import Package, Packages

FILES = {
    "parcel/__init__.py": "from .inner import weigh\n__version__ = '1.2'\n",
    "parcel/inner.py": """
def weigh(value):
    if value < 0:
        raise ValueError("less than nothing")
    return value * 2

def each(values, function):
    return [function(value) for value in values]
""",
    "parcel/data.txt": "a text beside the code",
    "parcel-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: parcel\nVersion: 1.2\n",
    "spread/part/__init__.py": "origin = __file__",
    "parcel_helpers.py": "origin = __file__",
    "empty/data.txt": "",
    "json.py": "origin = __file__",
    "codemode.py": "origin = __file__",
    "servers/__init__.py": "origin = __file__",
    "speedups.py": "origin = __file__",
    "speedups.abi3.so": "no ELF file",
    "speedups.so": "no ELF file",
    "tzdata/__init__.py": "",
    "tzdata/zones": "Moon/Crater",
    "tzdata/zoneinfo/__init__.py": "",
    "tzdata/zoneinfo/Moon/__init__.py": "",
    "tzdata/zoneinfo/Moon/Crater": "a zone",
    "loud.py": "import sys\nprint('imported')\nprint('to stderr', file=sys.stderr)",
    "ending.py": "import os\nos._exit(0)",
    "leaving.py": "import sys\nsys.exit('left')",
    "hungry.py": "held = bytearray(200 * 2**20)",
    "endless.py": "while True: pass",
    "working.py": """
import threading
results = []
threads = [threading.Thread(target=results.append, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    "seeking.py": """
import importlib, pkgutil, threading
def has_found(way):
    try:
        way()
    except ImportError:
        return False
    return True
def by_module(): importlib.import_module("extra")
def by_exec(): exec("import extra")
def by_name(): pkgutil.resolve_name("extra")
def in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(has_found(by_module)))
    thread.start()
    thread.join()
    if found == [False]: raise ImportError
""",
    "broken.py": "import parcel\nparcel.weigh(-1)",
    "able.py": """
import importlib
try:
    import extra
except ImportError:
    extra = None
try:
    by_name = importlib.import_module("extra")
except ImportError:
    by_name = None
""",
}
NATIVE = "it has native code, which the WASM sandbox can't run"


def make_packages(folder: Path) -> Packages:
    """The files in a folder, which is made, and what they are. Only the owner can read it, as an installation leaves
    it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    folder.chmod(0o700)
    modules = {Path(name).parts[0].removesuffix(".py") for name in FILES if name.endswith(".py")}
    return Packages(
        folder,
        (
            Package("parcel", "1.2", tuple(sorted(modules)), 1_000),
            Package("Quick", "3", ("quick",), 1_000, wasm_obstacle=NATIVE),
        ),
    )
