"""Describes a loaded configuration for `config check`. Masks secrets; shows only names of `env` and `headers`."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from codemode_server.config import trust
from codemode_server.config.live import local_principal
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.problems import printable
from codemode_server.config.secrecy import looks_secret, named_arguments
from codemode_server.settings import PermissionSettings, ServerSettings, Settings

MASK = "***"
_MAX_LINE_CHARACTERS = 10_000
_SHOWN_WHOLE = frozenset({"sandbox", "state"})
"""Sections shown with their defaults; other sections show only what differs from the defaults."""


_NO_SECTIONS = ("servers", "permissions", "principal", "groups")
"""Described in a form of their own."""


def may_start(loaded: LoadedSettings) -> bool:
    """True if the servers of the file may be started: it needs no trust, or is trusted."""
    place = loaded.place
    return place is None or not place.is_in_current_folder or trust.is_trusted(place.path, loaded.digests)


def describe(loaded: LoadedSettings, more_warnings: Sequence[str] = ()) -> str:
    """A page of text: the file, the warnings, each server, and what differs from the defaults."""
    settings = loaded.settings
    lines = [f"file: {loaded.path or 'none'}"]
    if loaded.path:
        lines.append(f"relative paths: from {loaded.base_dir}")
    if loaded.place and loaded.place.is_in_current_folder:
        lines.append(
            "trust: given"
            if may_start(loaded)
            else "trust: not trusted, so its servers are not started; run `codemode-server trust`"
        )
    if loaded.expanded_from:
        lines.append(f"variables: {', '.join(sorted(loaded.expanded_from))}")
    lines += _references(loaded)
    if warnings := [*loaded.warnings, *more_warnings, *_missing_programs(loaded)]:
        lines += ["", "warnings:", *(f"  - {warning}" for warning in warnings)]
    lines += ["", f"servers: {len(settings.servers) + len(loaded.invalid_servers) or 'none'}"]
    for name, server in settings.servers.items():
        lines += _server(name, server, loaded)
    lines += [f"  {name} (invalid)" for name in loaded.invalid_servers]
    lines += ["", f"permissions: {_without_a_rule(settings.permissions)}"]
    for number, rule in enumerate(settings.permissions.rules, start=1):
        lines.append(f"  {number}. {rule.text}" + (f" ({rule.reason})" if rule.reason else ""))
    others = [name for name in type(settings).model_fields if name not in _NO_SECTIONS]
    lines += ["", *_principals(settings), *(_section(name, loaded) for name in others)]
    return "\n".join(printable(masked(line, loaded), _MAX_LINE_CHARACTERS) for line in lines)


def _principals(settings: Settings) -> Iterator[str]:
    yield f"principal: {local_principal(settings).principal_id}"
    groups = (f"{name} ({', '.join(members) or 'nobody'})" for name, members in settings.groups.items())
    yield f"groups: {', '.join(groups) or 'none'}"


def _references(loaded: LoadedSettings) -> Iterator[str]:
    if names := [str(it) for it in loaded.references if it.kind == "keyring"]:
        yield f"secrets: {', '.join(names)}"
    if commands := [it.text for it in loaded.references if it.kind == "command"]:
        yield "commands that are run for secrets, and were not run by this check:"
        yield from (f"  {command}" for command in commands)


def masked(text: str, loaded: LoadedSettings) -> str:
    """`text` without the secrets of the configuration."""
    for secret in sorted(loaded.secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _without_a_rule(permissions: PermissionSettings) -> str:
    """Describes the decision on calls that no rule matches."""
    if permissions.preset is not None:
        return f"preset {permissions.preset} decides what no rule matches"
    return f"what no rule matches is {_PAST[permissions.default]}"


_PAST = {"allow": "allowed", "deny": "refused", "ask": "asked for"}


def _server(name: str, server: ServerSettings, loaded: LoadedSettings) -> Iterator[str]:
    kind = "stdio" if server.command is not None else server.transport if server.url is not None else "other"
    yield f"  {name} ({kind}{'' if server.enabled else ', disabled'})"
    if server.description:
        yield f"    {server.description}"
    if server.command is not None:
        yield f"    command: {_command_line(server, loaded)}"
        yield f"    cwd: {server.cwd}"
    if server.url is not None:
        yield f"    url: {shown_address(server.url, loaded)}"
    if server.env:
        yield f"    env: {', '.join(server.env)}"
    if server.headers:
        yield f"    headers: {', '.join(server.headers)}"
    if server.headers_command:
        yield f"    headers from the command: {masked(_without_short(server.headers_command, loaded), loaded)}"
    yield f"    timeout: {server.timeout:g} s" + (", protocol: legacy" if server.protocol == "legacy" else "")
    tools = server.tools
    if tools.include != ("*",) or tools.exclude:
        excluded = f", without {' '.join(tools.exclude)}" if tools.exclude else ""
        yield f"    tools: {' '.join(tools.include) or 'none'}{excluded}"
    if server.may_have_direct_tools:
        yield f"    direct tools: {', '.join(_direct_tools(server))}"


def _direct_tools(server: ServerSettings) -> tuple[str, ...]:
    if server.expose == "direct":
        return ("all",)
    return (*(["those that are mostly called alone"] if server.expose == "auto" else []), *server.direct)


def _command_line(server: ServerSettings, loaded: LoadedSettings) -> str:
    hidden = {value for name, value in named_arguments(server.args) if name and looks_secret(name)}
    words = [shlex.quote(server.command or "")]
    for arg in server.args:
        shown = _without_short(arg, loaded)
        for value in hidden:
            shown = MASK if arg == value else re.sub(rf"(?<=[=:\s]){re.escape(value)}$", MASK, shown)
        shown = masked(shown, loaded)
        words.append(shown if MASK in shown and " " not in shown else shlex.quote(shown))
    return " ".join(words)


def shown_address(address: str, loaded: LoadedSettings) -> str:
    """An address without user information and without parameters with secret-looking names."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return MASK
    shown = re.sub(r"(?<=://)[^/@?#]*@", f"{MASK}@", address)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if looks_secret(name) or value in loaded.short_secrets:
            shown = re.sub(rf"(?<=[?&]){re.escape(name)}=[^&#]*", f"{name}={MASK}", shown)
    return _without_short(shown, loaded)


def _without_short(text: str, loaded: LoadedSettings) -> str:
    for secret in sorted(loaded.short_secrets, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", MASK, text)
    return text


def _section(name: str, loaded: LoadedSettings) -> str:
    if name == "tracing":
        return f"tracing: {_tracing(loaded)}"
    if name == "privacy":
        return f"privacy: {loaded.settings.privacy.summary}"
    if name == "guardrails":
        return f"guardrails: {', '.join(it.use for it in loaded.settings.guardrails) or 'none'}"
    section: BaseModel = getattr(loaded.settings, name)
    defaults = type(section)()
    shown = {
        field: value
        for field, value in section
        if value is not None and (name in _SHOWN_WHOLE or value != getattr(defaults, field))
    }
    fields = [line for field, value in shown.items() for line in _fields(field, value, loaded)]
    return f"{name}: {', '.join(fields) or 'defaults'}"


def _fields(name: str, value: object, loaded: LoadedSettings) -> Iterator[str]:
    """A setting with its name; for a nested section, everything that is set."""
    if isinstance(value, BaseModel):
        for field, inner in value:
            if inner is not None:
                yield from _fields(f"{name}.{field}", inner, loaded)
    elif isinstance(value, str) and looks_secret(name.rpartition(".")[2]):
        yield f"{name} {MASK}"
    elif isinstance(value, str) and "://" in value:
        yield f"{name} {shown_address(value, loaded)}"
    else:
        yield f"{name} {f'{value:g}' if isinstance(value, float) else value}"


def _tracing(loaded: LoadedSettings) -> str:
    tracing = loaded.settings.tracing
    to = [f"by OTLP to {shown_address(tracing.otlp_endpoint, loaded)}"] if tracing.otlp_endpoint else []
    if tracing.langfuse.public_key and tracing.langfuse.secret_key:
        base_url = tracing.langfuse.base_url
        to.append("to Langfuse" + (f" at {shown_address(base_url, loaded)}" if base_url else ""))
    return f"exported {' and '.join(to)}, as service {tracing.service_name}" if to else "not exported"


def _missing_programs(loaded: LoadedSettings) -> Iterator[str]:
    for name, server in loaded.settings.servers.items():
        path = server.env.get("PATH")
        if server.enabled and server.command and shutil.which(server.command, path=path) is None:
            found = f"{server.command!r} is not found or can't be run"
            is_line = shutil.which(server.command.split()[0], path=path) is not None
            remedy = "put its arguments in `args`" if is_line else "install it or give its path"
            yield f"servers.{name}.command: {found}; {remedy}"
        if server.enabled and server.cwd and not _is_folder(server.cwd):
            yield f"servers.{name}.cwd: there is no folder {server.cwd}"


def _is_folder(path: str) -> bool:
    from pathlib import Path

    return Path(path).is_dir()
