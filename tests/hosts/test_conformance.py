"""The official conformance suite against the product over HTTP: every scenario that needs no fixture server; and
against the product as a client: each scenario about the connection to an upstream, without authorization.

The others call tools, prompts and resources by names that only a server written for the suite has
(`test_simple_text`, `test://static-text`; `completion-complete` wants the prompt `test_prompt_with_arguments`, and the
names of ours begin with a server's), or are about what the product does not offer (subscriptions, tasks). Single checks
of that sort are in conformance_baseline.yml.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import fork_server
from tests.answering import answering
from tests.hosts.conformance import Suite
from tests.hosts.kit import Served, configured, serving

pytestmark = [pytest.mark.slow, pytest.mark.network]

SCENARIOS = [
    ("server-initialize", "2025-06-18"),
    ("server-initialize", "2025-11-25"),
    ("server-session-lifecycle", "2025-03-26"),
    ("server-session-lifecycle", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("resources-list", "2025-11-25"),
    ("resources-list", "2026-07-28"),
    ("prompts-list", "2025-11-25"),
    ("prompts-list", "2026-07-28"),
    # For 2026-07-28 its only check passes against anything that answers, so it would prove nothing.
    ("server-sse-multiple-streams", "2025-11-25"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("dns-rebinding-protection", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("sep-2164-resource-not-found", "2026-07-28"),
    ("input-required-result-unsupported-methods", "2026-07-28"),
]
EACH = pytest.mark.parametrize(("scenario", "version"), SCENARIOS)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(configured(tmp_path_factory.mktemp("conformance"), "github")) as served, relay(served) as url:
        yield url


@contextmanager
def relay(served: Served) -> Iterator[str]:
    """An address that adds the token to each request, since the suite can't."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            received = b""
            while b"\r\n\r\n" not in received:
                if not (part := self.request.recv(65_536)):
                    return
                received += part
            head, _, body = received.partition(b"\r\n\r\n")
            request, *headers = head.split(b"\r\n")
            kept = [line for line in headers if not line.lower().startswith(b"connection:")]
            added = [f"Authorization: Bearer {served.token}".encode(), b"Connection: close"]
            with socket.create_connection(("127.0.0.1", served.port)) as product:
                product.sendall(b"\r\n".join([request, *added, *kept]) + b"\r\n\r\n" + body)
                up = threading.Thread(target=pump, args=(self.request, product), daemon=True)
                up.start()
                pump(product, self.request)
                with suppress(OSError):  # the suite may have closed it already
                    self.request.shutdown(socket.SHUT_RDWR)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65_536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@EACH
def test_the_product_conforms(conformance: Suite, product: str, tmp_path: Path, scenario: str, version: str) -> None:
    verdict = conformance.judge(tmp_path, scenario, version, "server", "--url", product)
    assert verdict.is_pass, verdict.report


@EACH
def test_what_is_no_mcp_server_does_not_conform(
    conformance: Suite, no_mcp_server: str, tmp_path: Path, scenario: str, version: str
) -> None:
    """The control: a pass above can't mean that the suite passes everything."""
    verdict = conformance.judge(tmp_path, scenario, version, "server", "--url", no_mcp_server)
    assert not verdict.is_pass, verdict.report


@pytest.fixture(scope="module")
def no_mcp_server() -> Iterator[str]:
    """Answers every request with an empty JSON object."""
    with answering(lambda _: (200, {"content-type": "application/json"}, b"{}")) as url:
        yield f"{url}/mcp"


CLIENT_SCENARIOS = [
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]


@pytest.mark.parametrize(("scenario", "version"), CLIENT_SCENARIOS)
def test_the_product_conforms_as_a_client(conformance: Suite, tmp_path: Path, scenario: str, version: str) -> None:
    command = " ".join(fork_server.command("-m", "tests.hosts.conformance_client"))
    verdict = conformance.judge(tmp_path, scenario, version, "client", "--command", command)
    assert verdict.is_pass, verdict.report


@pytest.mark.parametrize(("scenario", "version"), CLIENT_SCENARIOS[1:6])
def test_a_client_that_asks_for_nothing_does_not_conform(
    conformance: Suite, tmp_path: Path, scenario: str, version: str
) -> None:
    """The control: a pass above can't mean that the suite passes everything."""
    verdict = conformance.judge(tmp_path, scenario, version, "client", "--command", f"{sys.executable} --version")
    assert not verdict.is_pass, verdict.report
