"""One authorization server and one protected server for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answering import free_port
from tests.auth import kit
from tests.hosts.conftest import _installed


@pytest.fixture(scope="session")
def node_path() -> str:
    """Where oidc-provider and its Node are; skips where npm can't be had."""
    return _installed("oidc").path


@pytest.fixture(scope="module")
def servers(
    node_path: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[kit.AuthorizationServer, kit.ProtectedServer]]:
    port = free_port()
    resource = f"http://127.0.0.1:{port}/mcp"
    folder = tmp_path_factory.mktemp("auth")
    with (
        kit.authorization_server(node_path, free_port(), resource) as issuing,
        kit.protected_server(folder, port, issuing.issuer) as protected,
    ):
        yield issuing, protected


@pytest.fixture
def issuing(servers: tuple[kit.AuthorizationServer, kit.ProtectedServer]) -> kit.AuthorizationServer:
    return servers[0]


@pytest.fixture
def protected(servers: tuple[kit.AuthorizationServer, kit.ProtectedServer]) -> kit.ProtectedServer:
    return servers[1]


@pytest.fixture
def config(tmp_path: Path, protected: kit.ProtectedServer) -> Path:
    return kit.configured(tmp_path, {"protected": {"url": protected.url}})
