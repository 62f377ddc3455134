"""The real HAProxy with deploy/haproxy.cfg, in front of servers of the tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx2

from tests.answering import free_port
from tests.hosts.kit import ROOT, Served, until

CONFIG = ROOT / "deploy" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
"""None if it is not installed."""


@contextmanager
def balanced(one: Served, other: Served) -> Iterator[Served]:
    """A balancer in front of two replicas, once it serves."""
    assert HAPROXY is not None
    port = free_port()
    addresses = {"LISTEN": port, "REPLICA_A": one.port, "REPLICA_B": other.port}
    environment = {**os.environ, **{name: f"127.0.0.1:{it}" for name, it in addresses.items()}}
    process = subprocess.Popen((HAPROXY, "-db", "-q", "-f", str(CONFIG)), env=environment)
    try:
        until(partial(is_ready, port))
        yield Served(process, port, one.data)
    finally:
        process.kill()
        process.wait()


def is_ready(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx2.TransportError:
        return False
