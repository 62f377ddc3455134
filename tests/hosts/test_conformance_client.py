"""The official conformance suite against the product as a client: each scenario whose subject is the connection to an
upstream, without authorization.

The suite starts a server and then `conformance_client`, the product with that server as its upstream.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import fork_server
from tests.hosts.kit import ROOT, NodeTools
from tests.hosts.test_conformance import BASELINE, Verdict, verdict_of

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


def judge(tools: NodeTools, command: list[str], scenario: str, version: str, folder: Path) -> Verdict:
    results = folder / "results"
    done = tools.run(
        folder,
        *("conformance", "client", "--command", " ".join(command), "--scenario", scenario, "--spec-version", version),
        *("--expected-failures", str(BASELINE), "--timeout", "30000", "--output-dir", str(results)),
        PYTHONPATH=str(ROOT),
    )
    return verdict_of(done, results)


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_the_product_conforms_as_a_client(node_tools: NodeTools, tmp_path: Path, scenario: str, version: str) -> None:
    command = fork_server.command("-m", "tests.hosts.conformance_client")
    verdict = judge(node_tools, command, scenario, version, tmp_path)
    assert verdict.is_pass, verdict.report


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS[1:6])
def test_a_client_that_asks_for_nothing_does_not_conform(
    node_tools: NodeTools, tmp_path: Path, scenario: str, version: str
) -> None:
    """The control: a pass above can't mean that the suite passes everything."""
    verdict = judge(node_tools, [sys.executable, "--version"], scenario, version, tmp_path)
    assert not verdict.is_pass, verdict.report
