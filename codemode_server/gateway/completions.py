"""Completes arguments of prompts while a person types them, by asking the prompt's server.

The permissions decide as they do for the prompt itself. Nothing depends on a completion, so it is not recorded, none is
waited for long, and what goes wrong gives no values.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio

from codemode_server.catalog.catalog import Server
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import CallError
from codemode_server.domain.principals import Principal
from codemode_server.domain.resources import PromptDefinition
from codemode_server.gateway.policy.rules import PermissionRules, Subject
from codemode_server.gateway.targets import prompt_spellings
from codemode_server.redaction import Redactor
from codemode_server.text import clean_line

logger = logging.getLogger(__name__)

MAX_VALUES = 100
"""What the protocol allows."""
MAX_VALUE_CHARACTERS = 1_000
MAX_AT_ONCE = 4
"""Completions that one server is asked for at the same time; while so many wait, others have no values."""
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Completion:
    """Values that an argument may have."""

    values: tuple[str, ...] = ()
    total: int | None = None
    """How many there are, as the server says."""
    has_more: bool = False


class Completes(Protocol):
    """What asks a server for completions; the pool of upstreams does."""

    async def complete(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """As `UpstreamPool.complete`."""


class PromptCompletions:
    """Built once; knows how many completions each server is asked for."""

    def __init__(
        self,
        upstreams: Completes,
        config: LiveConfig,
        *,
        impersonal: Callable[[Principal, Server, tuple[str, ...]], Awaitable[tuple[str, ...]]] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`impersonal` gives those texts of a server that have no personal data which a principal must not get."""
        self._impersonal = impersonal
        self._upstreams = upstreams
        self._config = config
        self._timeout_s = timeout_s
        self._under_way: Counter[str] = Counter()

    async def complete(
        self,
        request: RequestContext,
        server: Server,
        prompt: PromptDefinition,
        argument: Mapping[str, str],
        known: Mapping[str, str],
    ) -> Completion:
        """The values that begin an `argument` (`name` and `value`) of a prompt as far as it is typed; `known` are the
        prompt's arguments that have their values already."""
        rules = PermissionRules(self._config.settings.permissions)
        is_allowed = rules.always_allowed(Subject.of_reading(server, prompt_spellings(prompt.name)))
        name = server.raw_name
        if not is_allowed or self._under_way[name] >= MAX_AT_ONCE:
            return Completion()
        params: dict[str, Any] = {"ref": {"type": "ref/prompt", "name": prompt.name}, "argument": {**argument}}
        if known:
            params["context"] = {"arguments": {**known}}
        self._under_way[name] += 1
        try:
            with anyio.move_on_after(self._timeout_s):
                found = _completion(await self._upstreams.complete(name, params), request.redactor)
                if self._impersonal is None:
                    return found
                return replace(found, values=await self._impersonal(request.principal, server, found.values))
        except CallError as error:
            logger.info("server %r: no completion: %s", name, error)
        finally:
            self._under_way[name] -= 1
        return Completion()


def _completion(found: Mapping[str, Any], redactor: Redactor) -> Completion:
    """What can be passed on. A value is left out that has a secret of the configuration, personal data that is known,
    or what nobody sees: masked or cleaned it would be another value."""
    listed, total = found.get("values"), found.get("total")
    values = [value for value in listed if isinstance(value, str)] if isinstance(listed, list) else []
    shown = [value for value in values[:MAX_VALUES] if value == redactor.text(clean_line(value, MAX_VALUE_CHARACTERS))]
    is_number = isinstance(total, int) and not isinstance(total, bool) and 0 <= total < 2**53
    has_more = found.get("hasMore") is True or len(values) > MAX_VALUES
    return Completion(tuple(shown), total if is_number else None, has_more)
