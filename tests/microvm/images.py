"""Images made on the spot, as archives and in a registry over plain HTTP on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MACHINE = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tarred(files: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


@dataclass(frozen=True)
class Image:
    """An image whose layers are files of noise, of the given sizes."""

    sizes: tuple[int, ...] = (1_000, 500)

    @cached_property
    def layers(self) -> list[bytes]:
        return [tarred({f"noise{number}": os.urandom(size)}) for number, size in enumerate(self.sizes)]

    @cached_property
    def blobs(self) -> list[bytes]:
        return [gzip.compress(layer, 1) for layer in self.layers]

    @cached_property
    def config(self) -> bytes:
        return _json(
            architecture=MACHINE,
            os="linux",
            config={"Env": ["PATH=/usr/bin"]},
            rootfs={"type": "layers", "diff_ids": [digest(layer) for layer in self.layers]},
        )

    @cached_property
    def manifest(self) -> bytes:
        kind = "application/vnd.oci.image"
        return _json(
            schemaVersion=2,
            mediaType=f"{kind}.manifest.v1+json",
            config={"mediaType": f"{kind}.config.v1+json", "digest": digest(self.config), "size": len(self.config)},
            layers=[
                {"mediaType": f"{kind}.layer.v1.tar+gzip", "digest": digest(blob), "size": len(blob)}
                for blob in self.blobs
            ],
        )

    def save_as_oci_layout(self, path: Path) -> Path:
        manifest = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(self.manifest),
            "size": len(self.manifest),
        }
        index = _json(schemaVersion=2, mediaType="application/vnd.oci.image.index.v1+json", manifests=[manifest])
        blobs = {
            "blobs/sha256/" + digest(blob).removeprefix("sha256:"): blob
            for blob in (self.config, self.manifest, *self.blobs)
        }
        path.write_bytes(tarred({"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs}))
        return path


def _json(**members: Any) -> bytes:
    return json.dumps(members).encode()


@dataclass
class Registry:
    """What a registry answers."""

    image: Image
    status: int = 200
    """Of every request for a manifest; not 200 is a refusal with `body`."""
    body: bytes = b""
    corrupt: bool = False
    """Layers come with a wrong last byte."""
    lies: bool = False
    """Whatever manifest is asked for by its digest, it gives this image's."""
    bytes_a_second: float = 1e9
    host: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def reference(self) -> str:
        return f"{self.host}/team/image:1@{digest(self.image.manifest)}"

    def answer(self, path: str) -> tuple[int, bytes, str]:
        self.asked.append(path)
        name = path.rpartition("/")[2]
        if "/manifests/" in path:
            if self.status != 200:
                return self.status, self.body, "application/json"
            if name in ("1", digest(self.image.manifest)) or self.lies:
                return 200, self.image.manifest, "application/vnd.oci.image.manifest.v1+json"
        for blob in (self.image.config, *self.image.blobs):
            if name == digest(blob):
                is_bad = self.corrupt and blob is not self.image.config
                return 200, blob[:-1] + b"?" if is_bad else blob, "application/octet-stream"
        return (200 if path == "/v2/" else 404), b"{}", "application/json"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """The registry, at a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, kind = registry.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            for start in range(0, len(body), 65_536):
                self.wfile.write(body[start : start + 65_536])
                time.sleep(min(len(body), 65_536) / registry.bytes_a_second)

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
