"""Runs scenarios of the official conformance suite in one process of Node, and reads what the suite says of each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hosts.kit import ROOT, NodeTools

BASELINE = Path(__file__).with_name("conformance_baseline.yml")
RUNNER = Path(__file__).with_name("conformance_runner.mjs")
INDEX = Path("@modelcontextprotocol", "conformance", "dist", "index.js")


@dataclass(frozen=True)
class Verdict:
    """What the suite said of one scenario."""

    exit_code: int
    succeeded: list[str]
    report: str

    @property
    def is_pass(self) -> bool:
        """The suite also ends with 0 where it skipped every check; that is no pass."""
        return self.exit_code == 0 and bool(self.succeeded)


@dataclass(frozen=True)
class Suite:
    """The suite's process."""

    process: subprocess.Popen[str]

    def judge(self, folder: Path, scenario: str, version: str, *arguments: str) -> Verdict:
        """Run one scenario in `folder`, with these arguments of the suite."""
        results = folder / "results"
        words = (
            *(*arguments, "--scenario", scenario, "--spec-version", version),
            *("--expected-failures", str(BASELINE), "--timeout", "30000", "--output-dir", str(results)),
        )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"folder": str(folder), "arguments": words}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        checks = [check for file in results.glob("*/checks.json") for check in json.loads(file.read_text())]
        succeeded = [it["id"] for it in checks if it["status"] == "SUCCESS" and it["id"] != "wire-schema-valid"]
        return Verdict(answer["code"], succeeded, answer["output"])


@contextmanager
def running(tools: NodeTools) -> Iterator[Suite]:
    """The suite, until the block is left."""
    index = Path(tools.path.split(os.pathsep)[0]).parent / INDEX
    with subprocess.Popen(
        ["node", str(RUNNER), str(index)],
        env=tools.environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Suite(process)
