"""A message of a server within a call, for its protection, and how a refusal to hand it on begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.sent_dates import SentDates
from codemode_server.gateway.targets import CallTarget, title_of


@dataclass(frozen=True)
class UpstreamMessage:
    calls: ExecutionCalls
    target: CallTarget
    arguments: Mapping[str, Any]
    """As the program has written them."""
    withheld: str
    """How a refusal to hand it on begins."""

    @cached_property
    def sent_dates(self) -> SentDates:
        return SentDates(self.arguments)


def result_withheld(target: CallTarget) -> str:
    return f"{title_of(target)} was called, and its result is withheld"


def error_withheld(target: CallTarget) -> str:
    return f"{title_of(target)} was called and failed, and why is withheld"


def question_withheld(target: CallTarget) -> str:
    """The call still runs."""
    return f"what {target.server.name} asks is withheld"
