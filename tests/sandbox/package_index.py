"""A package index on loopback for tests, whose packages are made by the test: real uv and real HTTP, no network."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def wheel(
    name: str,
    files: Mapping[str, str | bytes] | None = None,
    *,
    version: str = "1.0",
    requires: Sequence[str] = (),
    entries: Sequence[tuple[zipfile.ZipInfo, bytes]] = (),
    declared: Mapping[str, int] | None = None,
) -> bytes:
    """A wheel of these files, and of further entries as they are; `declared` are the sizes of files in its table of
    contents, where they are not what is in it."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = "".join(f"{line}\n" for line in ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"))
    metadata += "".join(f"Requires-Dist: {it}\n" for it in requires)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in (files or {}).items():
            archive.writestr(path, content)
        for entry, content in entries:
            archive.writestr(entry, content)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        for path, size in (declared or {}).items():
            archive.getinfo(path).file_size = size
    return written.getvalue()


def source_distribution(name: str, setup: str, version: str = "1.0") -> bytes:
    written = io.BytesIO()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for path, content in {"setup.py": setup, "PKG-INFO": metadata}.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    return written.getvalue()


@dataclass
class Index:
    address: str
    files: dict[str, dict[str, bytes]] = field(default_factory=dict, repr=False)
    """By package, then by file name; what is put in here is served."""
    requests: list[str] = field(default_factory=list)

    def add(self, name: str, files: Mapping[str, str | bytes] | None = None, version: str = "1.0", **more: Any) -> None:
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        self.add_file(name, file, wheel(name, files, version=version, **more))

    def add_file(self, name: str, file: str, content: bytes) -> None:
        self.files.setdefault(name, {})[file] = content

    def listing(self, name: str) -> dict[str, Any]:
        """PEP 691."""
        files = [
            {
                "filename": file,
                "url": f"{self.address}/files/{name}/{file}",
                "size": len(content),
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            }
            for file, content in self.files[name].items()
        ]
        return {"meta": {"api-version": "1.0"}, "name": name, "files": files}


@contextmanager
def package_index() -> Iterator[Index]:
    """The index while it is served."""
    index = Index("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requests.append(self.path)
            match self.path.strip("/").split("/"):
                case ["simple", name] if name in index.files:
                    content, kind = json.dumps(index.listing(name)).encode(), "application/vnd.pypi.simple.v1+json"
                case ["files", name, file] if file in index.files.get(name, {}):
                    content, kind = index.files[name][file], "application/octet-stream"
                case _:
                    self.send_error(404)
                    return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def entry(path: str, kind: int = stat.S_IFREG, packing: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    """An entry of a wheel with a path that is not checked, and a kind of file."""
    info = zipfile.ZipInfo(path)
    info.external_attr = (kind | 0o777) << 16
    info.compress_type = packing
    return info


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
