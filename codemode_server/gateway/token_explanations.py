"""Tells the model what privacy tokens are, once in a session."""

from __future__ import annotations

from collections import OrderedDict

from codemode_server.config.live import LiveConfig
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.known_values import OwnLine

_MAX_SESSIONS = 1_000
"""Sessions that are remembered; a model that reads it twice does nothing wrong."""
_TOKENS = (
    "tokens such as <EMAIL_1> stand for personal data, the same one for the same value. Give them to tools as "
    "they are: one that may receive the value gets it. Show them to the user as they are, who can look them up"
)
_TOKENS_IN_PROGRAMS = (
    "Programs can only compare, count and join whole tokens: have servers sort and filter by the values, and don't ask "
    "them for parts of values"
)
_VALUES_IN_PROGRAMS = "Programs see the values; only what leaves them has tokens"


class TokenExplanations:
    """Remembers the sessions whose model has the explanation."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._informed: OrderedDict[str, None] = OrderedDict()

    def add(self, calls: ExecutionCalls) -> None:
        """Add the explanation to the messages of an execution whose results have tokens."""
        session = calls.context.session.session_id
        if session in self._informed:
            return
        self._informed[session] = None
        if len(self._informed) > _MAX_SESSIONS:
            self._informed.popitem(last=False)
        sees_values = self._config.settings.privacy.programs == "values"
        said = _VALUES_IN_PROGRAMS if sees_values else _TOKENS_IN_PROGRAMS
        calls.messages.append(OwnLine(f"{_TOKENS}. {said}"))
