"""A real registry on this machine: Debian's `docker-registry`, unpacked once into .cache, not installed."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from scripts.vm import parts
from tests.hosts.kit import ROOT, free_port, until

CACHE = ROOT / ".cache"
OCI = "application/vnd.oci.image"


def program() -> Path:
    """Raises `parts.Unavailable` with the reason where it can't be had."""
    with parts.locked(CACHE / "debian"):
        made_from = parts.key(Path(__file__))
        folder = parts.part(
            CACHE / "debian", "docker-registry", made_from, lambda fresh: parts.unpacked("docker-registry", fresh)
        )
    return folder / "usr" / "bin" / "docker-registry"


@dataclass(frozen=True)
class Registry:
    """What listens at an address, over plain HTTP."""

    host: str

    def answers(self) -> bool:
        try:
            self._request("GET", "/v2/")
        except urllib.error.URLError:
            return False
        return True

    def push(self, archive: Path, name: str) -> str:
        """An image of `docker save`'s, under `name:tag`; gives its digest."""
        repository, _, tag = name.partition(":")
        with tarfile.open(archive) as saved:

            def read(member: str) -> bytes:
                file = saved.extractfile(member)
                assert file, member
                return file.read()

            (image,) = json.loads(read("manifest.json"))
            manifest = {
                "schemaVersion": 2,
                "mediaType": f"{OCI}.manifest.v1+json",
                "config": self._upload(repository, f"{OCI}.config.v1+json", read(image["Config"])),
                "layers": [
                    self._upload(repository, f"{OCI}.layer.v1.tar+gzip", gzip.compress(read(layer), 1))
                    for layer in image["Layers"]
                ],
            }
        headers = self._request(
            "PUT", f"/v2/{repository}/manifests/{tag}", json.dumps(manifest).encode(), f"{OCI}.manifest.v1+json"
        )
        return headers["Docker-Content-Digest"]

    def _upload(self, repository: str, kind: str, blob: bytes) -> dict[str, str | int]:
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        place = self._request("POST", f"/v2/{repository}/blobs/uploads/")["Location"]
        self._request("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", blob)
        return {"mediaType": kind, "digest": digest, "size": len(blob)}

    def _request(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/octet-stream"
    ) -> dict[str, str]:
        request = urllib.request.Request(
            urljoin(f"http://{self.host}", path), body, {"Content-Type": kind}, method=method
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=30) as answer:
            return dict(answer.headers)


@contextmanager
def serving(program: Path, folder: Path) -> Iterator[Registry]:
    """The registry with its storage in `folder`, until the block is left."""
    port = free_port()
    config = folder / "registry.yml"
    config.write_text(
        json.dumps(
            {
                "version": "0.1",
                "log": {"level": "error", "accesslog": {"disabled": True}},
                "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
                "http": {"addr": f"127.0.0.1:{port}"},
            }
        )
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    registry = Registry(f"127.0.0.1:{port}")
    try:
        until(lambda: process.poll() is not None or registry.answers())
        assert process.poll() is None, (folder / "registry.log").read_text()
        yield registry
    finally:
        process.terminate()
        process.wait(10)
