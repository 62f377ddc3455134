"""Writes what a release is made of as CycloneDX 1.6 (JSON): `make sbom`, to dist/codemode-server-VERSION.cdx.json.

From requirements/dev.txt, at the versions that were tested: what a user installs is `required`, what only builds and
tests it is `excluded`. Beside the packages stand the parts that are not packages: the sandbox's component with the
CPython in it, the table of words for the search, and the default image of the microVMs.

`bill` needs the standard library only; as a command it checks the result against the CycloneDX schema as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from scripts.lock_file import Pin, read_lock, runtime_names

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "dev.txt"
GUEST = ROOT / "codemode_server" / "sandbox" / "backends" / "wasm" / "guest.wasm"
TABLE = ROOT / "codemode_server" / "search" / "static_table.bin"
_PRODUCT = "codemode-server"

Component = dict[str, Any]


def bill() -> dict[str, Any]:
    """The whole document, the same for the same sources.

    Raises:
        ValueError: the component was not built, or a source does not have the form that is read here.
    """
    pins = read_lock(LOCK)
    runtime = runtime_names(pins)
    version = _found(r'__version__ = "([^"]+)"', ROOT / "codemode_server" / "__init__.py")
    parts = [_guest(), _table(), _image()]
    packages = [_package(pin, pin.name in runtime) for pin in pins]
    refs: dict[str, list[str]] = {}
    for pin in pins:
        refs.setdefault(pin.name, []).append(_ref(pin))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _PRODUCT,
                "name": _PRODUCT,
                "version": version,
                "purl": f"pkg:pypi/{_PRODUCT}@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            },
            "properties": [{"name": "codemode-server:lock", "value": f"sha256:{_sha256(LOCK)}"}],
        },
        "components": [*parts, *packages],
        "dependencies": _dependencies(pins, refs, [part["bom-ref"] for part in parts]),
    }


def _package(pin: Pin, is_required: bool) -> Component:
    component: Component = {
        "type": "library",
        "bom-ref": _ref(pin),
        "name": pin.name,
        "version": pin.version,
        "scope": "required" if is_required else "excluded",
        "purl": f"pkg:pypi/{pin.name}@{pin.version}",
        # A package has a file for each system; which one is installed is known only there.
        "properties": [{"name": "codemode-server:file", "value": digest} for digest in pin.hashes],
    }
    if pin.marker:
        component["properties"].append({"name": "codemode-server:where", "value": pin.marker})
    return component


def _dependencies(pins: list[Pin], refs: dict[str, list[str]], parts: list[str]) -> list[dict[str, Any]]:
    needs: dict[str, set[str]] = {_ref(pin): set() for pin in pins}
    ours = set(parts)
    for pin in pins:
        for name in pin.needed_by:
            if name.startswith(f"{_PRODUCT} ("):
                ours.add(_ref(pin))
            for ref in refs.get(name, ()):
                needs[ref].add(_ref(pin))
    return [{"ref": ref, "dependsOn": sorted(on)} for ref, on in sorted({_PRODUCT: ours, **needs}.items())]


def _guest() -> Component:
    """The component as it is built here; CPython's version is the one that its own text states."""
    stamp_path = GUEST.with_name("guest.wasm.json")
    if not GUEST.is_file() or not stamp_path.is_file():
        raise ValueError(f"{GUEST.name} was not built: make component")
    stamp = json.loads(stamp_path.read_text(encoding="utf-8"))
    stated = re.search(rb"(\d+\.\d+\.\d+) \(main, [^)]*\) \[", GUEST.read_bytes())
    if stated is None:
        raise ValueError(f"{GUEST.name} does not state the version of its CPython")
    inside = {"componentize-py": stamp["componentize_py"], "tzdata": stamp["tzdata"]}
    return {
        "type": "library",
        "bom-ref": GUEST.name,
        "name": GUEST.name,
        "version": stamp["sources"][:16],
        "description": "The sandbox's WebAssembly component: the guest's sources and CPython",
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": stamp["component"]}],
        "components": [
            {
                "type": "platform",
                "bom-ref": f"{GUEST.name}/cpython",
                "name": "cpython",
                "version": stated[1].decode(),
                "purl": f"pkg:generic/cpython@{stated[1].decode()}",
            },
            *(
                {
                    "type": "library",
                    "bom-ref": f"{GUEST.name}/{name}",
                    "name": name,
                    "version": version,
                    "purl": f"pkg:pypi/{name}@{version}",
                }
                for name, version in inside.items()
            ),
        ],
    }


def _table() -> Component:
    digest = _sha256(TABLE)
    return {
        "type": "machine-learning-model",
        "bom-ref": TABLE.name,
        "name": TABLE.name,
        "version": digest[:16],
        "description": "Vectors of words for the search; static_table.md beside it says where they are from",
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _image() -> Component:
    settings = ROOT / "codemode_server" / "sandbox" / "backends" / "microvm" / "__init__.py"
    reference = _found(r'"(docker\.io/\S+@sha256:[0-9a-f]{64})"', settings)
    name, digest = reference.split("@sha256:")
    return {
        "type": "container",
        "bom-ref": "microvm-image",
        "name": name,
        "version": f"sha256:{digest}",
        "description": "Default image of the microVMs; pulled by the user, not part of the wheel",
        "scope": "optional",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _ref(pin: Pin) -> str:
    return f"{pin.name}@{pin.version}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _found(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{path.relative_to(ROOT)} has nothing like {pattern}")
    return found[1]


def main() -> None:
    """Write the file; end with 1 and the reason if it is not valid."""
    from cyclonedx.schema import SchemaVersion  # in requirements/tools.txt only
    from cyclonedx.validation.json import JsonStrictValidator

    document = bill()
    text = json.dumps(document, indent=2) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        sys.exit(f"sbom: not valid CycloneDX: {problem}")
    out = ROOT / "dist" / f"{_PRODUCT}-{document['metadata']['component']['version']}.cdx.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(f"{out.relative_to(ROOT)}: {len(document['components'])} components, valid CycloneDX 1.6")


if __name__ == "__main__":
    main()
