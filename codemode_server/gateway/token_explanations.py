"""Tells the model what privacy tokens are, once in a session."""

from __future__ import annotations

from collections import OrderedDict

from codemode_server.config.live import LiveConfig
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.known_values import OwnLine
from codemode_server.privacy_settings import PrivacySettings

_MAX_SESSIONS = 1_000
"""Sessions that are remembered; a model that reads it twice does nothing wrong."""
_TOKENS = (
    "tokens such as <EMAIL_1> stand for personal data, the same one for the same value. Give them to tools as "
    "they are: one that may receive the value gets it. Show them unchanged to the user, who can look them up with "
    "`codemode-server privacy show`"
)
_TOKENS_IN_PROGRAMS = (
    "Programs can only compare, count and join whole tokens: have servers sort and filter by the values, and don't ask "
    "them for parts of values"
)
_VALUES_IN_PROGRAMS = "Programs see the values; only what leaves them has tokens"
_MAX_RECEIVERS = 8


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
        settings = self._config.settings.privacy
        said = _VALUES_IN_PROGRAMS if settings.programs == "values" else _TOKENS_IN_PROGRAMS
        calls.messages.append(OwnLine(f"{_TOKENS}. {said}. {receivers(settings)}"))


def receivers(settings: PrivacySettings) -> str:
    """Which tools may receive which kinds, so that a program is not planned around a call that is refused."""
    named = [f"{glob} ({', '.join(kinds)})" for glob, kinds in settings.release.items() if kinds]
    if len(named) > _MAX_RECEIVERS:
        named[_MAX_RECEIVERS:] = [f"{len(named) - _MAX_RECEIVERS} more"]
    is_asked = settings.on_release == "ask"
    if not named:
        return "The user is asked before a tool receives a value" if is_asked else "No tool may receive the values"
    others = "; for others the user is asked" if is_asked else " and no others"
    return f"The values may go to {', '.join(named)}{others}"
