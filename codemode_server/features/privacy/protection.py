"""Reads the section `privacy` for a server and a tool. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codemode_server.calls.policy.names import Spellings, fits
from codemode_server.catalog.naming import Kind, name_alone, server_names
from codemode_server.config.settings import Settings
from codemode_server.features.privacy.settings import PrivacySettings, ProtectionMode


def mode_of(settings: PrivacySettings, server: Spellings) -> ProtectionMode:
    """The protection of personal data in answers of a server: the first glob that matches decides."""
    for glob, mode in settings.servers.items():
        if fits(server, glob, is_wide=mode != "values"):
            return mode
    return "values"


def protected_servers(settings: PrivacySettings, raw_names: Iterable[str]) -> frozenset[str]:
    """Those of all configured servers whose answers are searched for personal data."""
    if not settings.is_on:
        return frozenset()
    names = server_names(raw_names)
    spelled = (Spellings(raw, name, name_alone(raw, Kind.SERVER)) for raw, name in names.items())
    return frozenset(it.raw for it in spelled if mode_of(settings, it) != "values")


def released_to(settings: PrivacySettings, server: Spellings, tool: Spellings) -> frozenset[str]:
    """The kinds that a tool may receive in place of tokens; what several globs allow adds up."""
    found: set[str] = set()
    for glob, kinds in settings.release.items():
        server_glob, _, tool_glob = glob.partition("/")
        if fits(server, server_glob, is_wide=False) and fits(tool, tool_glob or "*", is_wide=False):
            found.update(kinds)
    return frozenset(found)


def protection_lines(configured: Settings, server: Spellings, tool: Spellings) -> Iterator[str]:
    """Lines that a person has to know about a call of the tool; nothing if no server is protected."""
    settings = PrivacySettings.of(configured)
    if not settings.is_on:
        return
    match mode_of(settings, server):
        case "tokens":
            yield "privacy: personal data in its answers becomes tokens"
        case "block":
            yield "privacy: answers with personal data are refused"
    kinds = ", ".join(sorted(released_to(settings, server, tool))) or "nothing"
    otherwise = "you are asked about the rest" if settings.on_release == "ask" else "else it is refused"
    yield f"privacy: in place of tokens it receives {kinds}; {otherwise}"
