"""The rule that the answer `always` writes: the narrowest there is, and only where it would do what it says."""

from __future__ import annotations

from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.domain.calls import Ask
from codemode_server.gateway.policy.names import Spellings, fits
from codemode_server.gateway.policy.rules import PermissionRules
from codemode_server.gateway.targets import CallTarget, ToolTarget
from codemode_server.settings import Settings

_SPECIAL = frozenset("*?[]/$")
_MAX_NAME_CHARACTERS = 60
"""Each question shows such a rule whole."""


def always_rule(settings: Settings, target: CallTarget, ask: Ask) -> str | None:
    """The rule as YAML. None if not (only) a rule of the configuration asks, and where no pattern allows exactly this
    tool: its name looks like a pattern, or fits another tool as well."""
    place = PermissionRules(settings.permissions).place_before_asking(ask.reason)
    if not isinstance(target, ToolTarget) or place is None:
        return None
    server, tool = target.server.raw_name, target.raw_name
    if max(len(server), len(tool)) > _MAX_NAME_CHARACTERS:
        return None
    others = [name for name in settings.servers if name != server]
    is_servers_own = not any(name_alone(name, Kind.SERVER) == server for name in others)
    fitting = [it for it in target.server.tools if fits(Spellings.of_tool(it), tool, is_wide=True)]
    if _SPECIAL & {*server, *tool} or not tool.isprintable() or not is_servers_own or len(fitting) != 1:
        return None
    return f"- allow: {server}/{tool}"
