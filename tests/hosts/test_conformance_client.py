"""The official conformance suite against the product as a client: each scenario whose subject is the connection to an
upstream, without authorization.

The suite starts a server and then `conformance_client`, the product with that server as its upstream.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import fork_server
from tests.hosts.conformance import Suite

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(120)]

SCENARIOS = [
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


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_the_product_conforms_as_a_client(conformance: Suite, tmp_path: Path, scenario: str, version: str) -> None:
    command = " ".join(fork_server.command("-m", "tests.hosts.conformance_client"))
    verdict = conformance.judge(tmp_path, scenario, version, "client", "--command", command)
    assert verdict.is_pass, verdict.report


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS[1:6])
def test_a_client_that_asks_for_nothing_does_not_conform(
    conformance: Suite, tmp_path: Path, scenario: str, version: str
) -> None:
    """The control: a pass above can't mean that the suite passes everything."""
    verdict = conformance.judge(tmp_path, scenario, version, "client", "--command", f"{sys.executable} --version")
    assert not verdict.is_pass, verdict.report
