"""A host that speaks MCP by lines to a child process, for what the real client does not show or does not send."""

from __future__ import annotations

import json
import subprocess
from typing import Any


class Wire:
    """Waits for each answer; `others` has the lines that came before one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.others: list[dict[str, Any]] = []
        self._id = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self.answer(self._id)

    def answer(self, request_id: int | str) -> dict[str, Any]:
        """The answer to a request that was sent."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == request_id:
                return answer
            self.others.append(answer)
        raise AssertionError("the process ended without an answer")

    def initialize(self, version: str = "2025-11-25") -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={"roots": {}}, clientInfo=client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer
