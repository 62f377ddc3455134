"""The pages of executions, questions, privacy tokens, permissions and savings."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from html import unescape
from itertools import chain
from typing import Any, Protocol
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.calls.policy.rules import PermissionRules
from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.domain.approvals import ApprovalId
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionStatus
from codemode_server.domain.history import HistoryQuery
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.domain.savings import METHOD, TokenUsage
from codemode_server.executions.preflight.reading import read
from codemode_server.features.pages.questions import answer_of, asked_html, question_html, texts_of
from codemode_server.features.pages.site import Site
from codemode_server.features.pages.value_html import part_at, summary, value_html
from codemode_server.features.pages.waterfall import waterfall
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools, arguments_of
from codemode_server.storage.history import MAX_COUNTED_CALLS
from codemode_server.support.tokens import estimate_tokens

UNFINISHED = frozenset({ExecutionStatus.QUEUED, ExecutionStatus.RUNNING, ExecutionStatus.WAITING})
_MAX_PARAMETER_CHARACTERS = 4_000
_MAX_SEARCH_CHARACTERS = 200
_MAX_CALLS = 500
_MAX_ERROR_CHARACTERS = 300
"""Of the error of a call in the list."""
_DIGEST = re.compile(r"sha256 [0-9a-f]{64}, \d+ characters")
"""What `state.payloads: shapes` records of a program."""
_PERIODS = (7, 30, 90)
_DAY_SECONDS = 86_400.0
_MAX_SERVERS, _MAX_EXECUTIONS = 100, 50
_SEARCH_FIELDS = ("text", "server", "tool", "status", "since", "until")


class Tokens(Protocol):
    """The privacy tokens of the local principal. Raises `CodemodeError`: there is none, or they can't be read."""

    async def known_in(self, text: str, /) -> Collection[str]: ...
    async def find(self, token: str, /) -> KnownToken: ...
    async def reveal(self, token: str, /) -> KnownToken: ...


class RecordPages:
    """The pages of executions, questions, privacy tokens, permissions and savings."""

    def __init__(self, site: Site, records: Records, tokens: Tokens | None) -> None:
        self._site = site
        self._records = records
        self._tokens = tokens
        site.get("", self._executions)
        site.get("executions", self._executions)
        site.get("executions/{name}", self._execution)
        site.get("executions/{name}/calls/{seq:int}", self._call)
        site.post("executions/{name}/cancel", self._cancel)
        site.get("approvals", self._approvals)
        site.get("approvals/{name}", self._approval)
        site.post("approvals/{name}", self._answer)
        if tokens is not None:
            site.get("privacy/{name}", partial(self._token, tokens))
            site.post("privacy/{name}", partial(self._reveal, tokens))
        site.get("permissions", self._permissions)
        site.more.append(("permissions", "Permissions"))
        site.get("savings", self._savings)
        if records.savings is not None:
            site.more.append(("savings", "Savings"))

    async def _executions(self, request: Request) -> Response:
        given = {name: value[:_MAX_SEARCH_CHARACTERS] for name, value in request.query_params.items()}
        query = _query(given)
        history = await self._records.search(query)
        masked = self._records.masked
        shown = [replace(it, description=masked(it.description)) for it in history.executions]
        older = None
        if history.older_than is not None:
            older = urlencode({**{name: it for name, it in given.items() if it}, "before": repr(history.older_than)})
        return await self._site.page(
            "executions",
            "executions",
            request,
            executions=shown,
            known=await self._known_tokens(*(it.description for it in shown)),
            older=older,
            given={name: given.get(name, "") for name in _SEARCH_FIELDS},
            is_search=any(given.get(name) for name in _SEARCH_FIELDS),
            statuses=[it.value for it in ExecutionStatus],
            is_live=query.before is None,
        )

    async def _execution(self, request: Request) -> Response:
        name, given = ExecutionId(request.path_params["name"]), request.query_params.get("after", "0")
        after, records = int(given[:9]) if given.isdecimal() else 0, self._records
        found = await records.find(name, after=after, limit=_MAX_CALLS + 1, values="small")
        if found is None:
            return self._site.message(404, "Not recorded", f"No execution {name} of yours is recorded (any more).")
        record, calls, code = found
        record = replace(
            record,
            error=records.masked(record.error),
            description=records.masked(record.description),
            answer=records.config.redactor.text(record.answer or ""),
        )
        waits, retries = await records.history.waits_and_retries(records.principal, name)
        is_code_whole = bool(code) or not _DIGEST.fullmatch(record.code or "")
        lines = _lines(record.code or "", calls[:_MAX_CALLS]) if is_code_whole else {}
        summaries = {it.call.seq: self._summary(it) for it in calls[:_MAX_CALLS]}
        ended = record.ended_at if record.ended_at is not None else time.time()
        bars = waterfall(calls[:_MAX_CALLS], waits, retries, lines, began=record.started_at, ended=ended)
        marks: dict[int, list[int]] = {}
        for bar in bars:
            for line in bar.lines:
                marks.setdefault(line, []).append(bar.call.call.seq)
        return await self._site.page(
            "execution",
            "executions",
            request,
            is_live=record.status in UNFINISHED,
            record=record,
            is_code_whole=is_code_whole,
            code_tokens=estimate_tokens(code) if code else None,
            can_run_again=bool(code),
            usage=None if records.savings is None else await records.savings.execution(records.principal, name),
            bars=bars,
            summaries=summaries,
            marks=marks,
            more_after=calls[_MAX_CALLS - 1].call.seq if len(calls) > _MAX_CALLS else None,
            known=await self._known_tokens(
                *(record.code, record.description, record.error, record.answer),
                *chain.from_iterable(summaries.values()),
            ),
        )

    def _summary(self, it: CallRecord) -> tuple[str, str | None]:
        """The arguments and the error of a call in a line each."""
        records, error = self._records, it.outcome.error if it.outcome else None
        arguments = records.config.redactor.value(it.call.arguments)
        return summary(arguments) if isinstance(arguments, dict) else "", records.masked(error, _MAX_ERROR_CHARACTERS)

    async def _call(self, request: Request) -> Response:
        execution_id, records = ExecutionId(request.path_params["name"]), self._records
        made = await records.call(execution_id, min(request.path_params["seq"], 2**31))
        if made is None:
            return self._site.message(404, "Not recorded", "The journal has no such call of yours (any more).")
        path, start = request.query_params.get("at", ""), request.query_params.get("from", "0")
        try:
            parts = await anyio.to_thread.run_sync(
                _parts, records, made, path, int(start[:9]) if start.isdecimal() else 0
            )
        except LookupError:
            return self._site.message(404, "Not there", "This call has no such value.")
        error = records.masked(made.outcome.error) if made.outcome else None
        return await self._site.page(
            "call",
            "executions",
            execution_id=execution_id,
            made=made,
            parts=parts,
            path=path,
            error=error,
            note=made.unreadable,
            known=await self._known_tokens(*map(unescape, parts.values()), error),
        )

    async def _cancel(self, request: Request, _: Mapping[str, str]) -> Response:
        name = request.path_params["name"]
        await self._records.cancel(ExecutionId(name))
        return self._site.redirect(f"executions/{name}")

    async def _approvals(self, request: Request) -> Response:
        approvals, refused = await self._records.approvals(), await self._records.refusals()
        known = await self._known_tokens(*(texts_of(it.question) for it in approvals))
        shown = [(it, asked_html(it.question, known, self._site.base)) for it in approvals]
        return await self._site.page("approvals", "approvals", request, approvals=shown, refused=refused, is_live=True)

    async def _approval(self, request: Request) -> Response:
        approval = await self._records.approval(ApprovalId(request.path_params["name"]))
        if approval is None or not approval.may_be_approved(time.time()):
            gone = "This question has its answer, or its program has ended."
            return self._site.message(404, "Nothing to answer", gone)
        base = self._site.base
        body = question_html(
            approval.question,
            f"{base}/approvals/{approval.approval_id}",
            token=self._site.form_token,
            known=await self._known_tokens(texts_of(approval.question)),
            base=base,
        )
        return await self._site.page("approval", "approvals", approval=approval, body=body)

    async def _answer(self, request: Request, form: Mapping[str, str]) -> Response:
        approval_id = ApprovalId(request.path_params["name"])
        approval = await self._records.approval(approval_id)
        answer = None if approval is None else answer_of(form, approval.question)
        if answer is None:
            return self._site.message(400, "Not understood", "Go back, and choose one of the answers.")
        await self._records.answer(approval_id, answer)
        return self._site.redirect("approvals")

    async def _known_tokens(self, *texts: str | None) -> Collection[str]:
        if self._tokens is None:
            return ()
        return await self._tokens.known_in("\n".join(filter(None, texts)))

    async def _token(self, tokens: Tokens, request: Request) -> Response:
        name = request.path_params["name"]
        return await self._site.page("token", "executions", found=await tokens.find(f"<{name}>"), name=name, value=None)

    async def _reveal(self, tokens: Tokens, request: Request, _: Mapping[str, str]) -> Response:
        """The value is in this answer alone: a redirect would need an address that shows it."""
        name = request.path_params["name"]
        token = await tokens.reveal(f"<{name}>")
        return await self._site.page("token", "executions", found=token, name=name, value=token.original)

    async def _permissions(self, request: Request) -> Response:
        call = request.query_params.get("call", "")[:_MAX_PARAMETER_CHARACTERS].strip()
        arguments = request.query_params.get("args", "")[:_MAX_PARAMETER_CHARACTERS].strip()
        decisions = await self._records.history.decisions(self._records.principal)

        def read() -> dict[str, Any]:
            explanation, problem = "", ""
            with KnownTools.of(self._records.present()) as known:
                if call:
                    try:
                        given = arguments_of(arguments, "the box of arguments") if arguments else None
                        explanation = known.explanation(call, given)
                    except CodemodeError as error:
                        problem = str(error)
                permissions = known.loaded.settings.permissions
                # An approved call's reason names its rule too.
                rules = [
                    (
                        known.loaded.redactor.text(it.settings.text),
                        sum(one.calls for one in decisions if it.source in one.reason),
                    )
                    for it in PermissionRules(permissions).rules
                ]
            otherwise = f"preset {permissions.preset}" if permissions.preset else f"default {permissions.default}"
            return {"explanation": explanation, "problem": problem, "rules": rules, "otherwise": otherwise}

        return await self._site.page(
            "permissions",
            "permissions",
            call=call,
            arguments=arguments,
            decisions=decisions,
            counted_rows=MAX_COUNTED_CALLS,
            **await anyio.to_thread.run_sync(read),
        )

    async def _savings(self, request: Request) -> Response:
        given = request.query_params.get("days", "")
        days = next((it for it in _PERIODS if str(it) == given), _PERIODS[1])
        store, principal = self._records.savings, self._records.principal
        if store is None:
            return self._site.message(404, "Nothing here", "This codemode-server counts no savings.")
        since = time.time() - days * _DAY_SECONDS
        by_day = await store.days(principal, since, days + 1)
        servers = await store.servers(principal, since, _MAX_SERVERS)
        executions = await store.executions(principal, since, _MAX_EXECUTIONS)
        mask = self._records.config.redactor.text
        return await self._site.page(
            "savings",
            "savings",
            total=sum((it.usage for it in by_day), TokenUsage()),
            days=by_day,
            period=days,
            periods=_PERIODS,
            method=METHOD,
            servers=[(mask(it.name), it.tokens) for it in servers],
            executions=executions,
        )


def _parts(records: Records, made: CallRecord, path: str, start: int) -> dict[str, Markup]:
    """HTML of the values of a call, or of the part that a link names. Raises `LookupError`: there is none."""
    values = records.whole_values(made)
    if path:
        return {path.strip("/"): value_html(part_at(values, path), path, start=start)}
    return {name.capitalize(): value_html(value, f"/{name}") for name, value in values.items()}


def _lines(code: str, calls: Sequence[CallRecord]) -> dict[tuple[str, str], list[int]]:
    """The lines of the program that may call each raw server and tool."""
    tools = {(it.call.server, it.call.tool) for it in calls}
    names = {it: (name_alone(it[0], Kind.SERVER), name_alone(it[1], Kind.TOOL)) for it in tools}
    reading = read(code)
    return {} if reading is None else {raw: reading.lines_naming(*name) for raw, name in names.items()}


def _query(given: Mapping[str, str]) -> HistoryQuery:
    status = given.get("status", "")
    until, before = _day(given.get("until", "")), None
    with suppress(ValueError):
        before = float(given.get("before", ""))
    if before is None and until is not None:
        before = until + _DAY_SECONDS
    return HistoryQuery(
        text=given.get("text", "").strip(),
        server=given.get("server", "").strip(),
        tool=given.get("tool", "").strip(),
        status=ExecutionStatus(status) if status in set(ExecutionStatus) else None,
        since=_day(given.get("since", "")) or 0.0,
        before=before,
    )


def _day(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None
