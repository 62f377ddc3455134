"""The `sources` command: shows what sessions have read, by which `permissions.flows` decides, and forgets it, for a
person at a terminal only: a session that has read nothing may send data anywhere."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli.terminal import configuration, person_confirms, show
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.flows import SHARED, WORKSPACE
from codemode_server.features.data_flow.reports import (
    MAX_LISTED,
    SessionSources,
    line_of,
    store_of,
    stored,
    with_reasons,
)
from codemode_server.records.executions import stored_records
from codemode_server.support.text import first_lines, one_line

_MAX_AUDITED_CHARACTERS = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print what each session has read; the default")
    listing.add_argument("--json", action="store_true", help="print JSON")
    forgetting = actions.add_parser("forget", help="forget it, so that it restricts no call any more; asks you")
    forgetting.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"as `list` prints it, or `{WORKSPACE}`; without it, everything"
    )


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    found = _stored(loaded)
    if parsed.action != "forget":
        found = with_reasons(loaded, found)
        show(json.dumps([it.as_json() for it in found], indent=2) if parsed.json else _page(found))
        return 0
    chosen = [it for it in found if parsed.session in (None, it.session) or _is_in_files(parsed.session, it)]
    if not chosen:
        which = "" if parsed.session is None else f" of a session {one_line(parsed.session, 200)!r}"
        raise CodemodeError(f"nothing is stored{which}; `codemode-server sources` lists what sessions have read")
    question = "Forget this? What programs, conversations and files still hold of it may then be sent anywhere."
    if not person_confirms(_page(chosen), question):
        show("nothing was forgotten")
        return 1
    anyio.run(partial(_forget, loaded, chosen))
    show(f"forgotten: {', '.join(it.session for it in chosen)}")
    return 0


def _is_in_files(session: str | None, it: SessionSources) -> bool:
    return session == WORKSPACE and it.session in SHARED


def files_sources(loaded: LoadedSettings) -> list[str]:
    """What the files in /workspace may hold, a line each; none where the database can't be read."""
    with suppress(CodemodeError, OSError):
        shared = [it for it in _stored(loaded) if it.session in SHARED]
        lines = list(dict.fromkeys(f"  {line_of(it)}" for one in shared for it in one.sources))
        return first_lines(lines, MAX_LISTED, "  … and {:,} more")
    return []


def forget_files(loaded: LoadedSettings) -> None:
    """Forget what sessions passed on by files in /workspace. Raises `CodemodeError`."""
    anyio.run(_forget, loaded, [it for it in _stored(loaded) if it.session in SHARED])


def _stored(loaded: LoadedSettings) -> list[SessionSources]:
    with stored_records(loaded) as records:
        return stored(records)


async def _forget(loaded: LoadedSettings, chosen: Sequence[SessionSources]) -> None:
    with stored_records(loaded) as records:
        principal, store = records.principal, store_of(records)
        await store.forget([(principal.principal_id, it.session) for it in chosen])
        for it in chosen:
            reason = ", ".join(line_of(one) for one in it.sources)[:_MAX_AUDITED_CHARACTERS]
            kind = AuditEventKind.SOURCES_FORGOTTEN
            event = AuditEvent.by_person(kind, principal, it.session, reason=reason, status="forgotten")
            records.audit.append(event)


def _page(found: Sequence[SessionSources]) -> str:
    return "\n\n".join(it.text for it in found) or "no session has read anything"
