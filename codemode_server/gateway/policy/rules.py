"""Decides from `permissions` of the configuration: the first rule that matches, otherwise the default. Pure."""

from __future__ import annotations

from typing import Literal

from codemode_server.domain.calls import Allow, Ask, Deny
from codemode_server.gateway.policy.names import Spellings, fits
from codemode_server.settings import PermissionRule, PermissionSettings

_DECISIONS: dict[Literal["allow", "deny", "ask"], type[Allow | Deny | Ask]] = {"allow": Allow, "deny": Deny, "ask": Ask}


def decide(permissions: PermissionSettings, server: Spellings, tool: Spellings) -> Allow | Deny | Ask:
    """The decision on calls of `tool` on `server`."""
    for number, rule in enumerate(permissions.rules, start=1):
        if _matches(rule, server, tool):
            return _DECISIONS[rule.answer](_reason(rule, number))
    return _DECISIONS[permissions.default](f"permissions.default is {permissions.default!r}")


def _matches(rule: PermissionRule, server: Spellings, tool: Spellings) -> bool:
    server_glob, _, tool_glob = rule.pattern.partition("/")
    # An upstream that adds `a_b` takes that name from `a-b`; a `deny` that was written for it still holds.
    is_wide = rule.answer != "allow"
    return fits(server, server_glob, is_wide=is_wide) and fits(tool, tool_glob or "*", is_wide=is_wide)


def _reason(rule: PermissionRule, number: int) -> str:
    source = f"rule {number} of permissions.rules ({rule.answer}: {rule.pattern})"
    return f"{source}: {rule.reason}" if rule.reason else source
