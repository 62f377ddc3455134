"""Answers the requests to the pages: finds the page of a path, and does what its forms ask for.

A `GET` changes nothing, but for the entrance, which works once. A form is accepted only from the admitted browser, from
a page of this origin, and with the token that its page held.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from codemode_server.catalog.naming import Kind, name_alone
from codemode_server.domain.approvals import ApprovalId
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.history import HistoryQuery
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.savings import METHOD
from codemode_server.executions.approvals.program_lines import line_numbers
from codemode_server.web import local_server
from codemode_server.web.approval_page import answer_of, question_html
from codemode_server.web.ui import charts
from codemode_server.web.ui.admission import Admission
from codemode_server.web.ui.records import ExecutionDetail, Records
from codemode_server.web.ui.rendering import SCRIPT, STYLE, page
from codemode_server.web.ui.server_pages import ServerPages
from codemode_server.web.ui.server_records import ServerRecords
from codemode_server.web.ui.token_marks import with_token_links
from codemode_server.web.ui.token_pages import TokenPages, TokenRecords
from codemode_server.web.ui.tool_pages import ToolPages, ToolRecords
from codemode_server.web.ui.waterfall import Bar, waterfall

UNFINISHED = frozenset({ExecutionStatus.QUEUED, ExecutionStatus.RUNNING, ExecutionStatus.WAITING})
_MAX_PARAMETER_CHARACTERS = 4_000
_PERIODS = (7, 30, 90)
"""Days for which savings are shown."""
_MAX_SEARCH_CHARACTERS = 200


class UiSite:
    """A `local_server.Site`."""

    def __init__(
        self,
        origin: str,
        records: Records,
        servers: ServerRecords,
        tools: ToolRecords,
        tokens: TokenRecords,
        admission: Admission,
    ) -> None:
        self.origin = origin
        self._records = records
        self._servers = ServerPages(servers, self._page, self._message, self._redirect)
        self._tools = ToolPages(tools, self._page, self._message)
        self._token_records = tokens
        self._tokens = TokenPages(tokens, self._page)
        self._admission = admission
        base = f"{origin}{admission.base}"
        self._sources = f"style-src {base}/page.css; script-src {base}/live.js; connect-src {base}/"

    async def response(self, request: Request) -> Response:
        path, admission = local_server.path_of(request), self._admission
        if request.method == "GET" and admission.redeem(path):
            # A redirect would not carry the cookie, since the browser came from another site.
            response: Response = page("entered", base=admission.base)
            admission.admit(response)
            return self._with_sources(response)
        if request.method == "HEAD" and admission.is_entrance(path):
            return Response(status_code=204)  # `ui` asks whether the browser has been there
        if not admission.is_admitted(request):
            text = "Start `codemode-server ui` again: its address opens the pages once, in one browser."
            return page("message", status=403, base="", title="Not admitted", text=text)
        return self._with_sources(await self._admitted(path.removeprefix(f"{admission.base}/").split("/"), request))

    def _with_sources(self, response: Response) -> Response:
        """For admitted browsers only: it names the path of the pages, which no one else may know."""
        response.headers[local_server.POLICY] = self._sources
        return response

    async def _admitted(self, parts: list[str], request: Request) -> Response:
        try:
            if request.method in ("GET", "HEAD"):
                return await self._shown(parts, request)
            if request.method == "POST":
                return await self._posted(parts, request)
        except CodemodeError as error:
            return self._message(409, "That did not work", str(error))
        return self._message(405, "Nothing here", "These pages are read, and answered by their forms.")

    async def _shown(self, parts: list[str], request: Request) -> Response:
        match parts:
            case ["" | "executions"]:
                return await self._executions(request)
            case ["executions", name]:
                return await self._execution(ExecutionId(name), request)
            case ["executions", name, "calls", number] if number.isascii() and number.isdecimal():
                return await self._call(ExecutionId(name), int(number[:9]))
            case ["approvals"]:
                found = await self._records.approvals()
                return await self._page("approvals", "approvals", request, approvals=found, is_live=True)
            case ["approvals", name]:
                return await self._approval(ApprovalId(name))
            case ["servers", *rest]:
                return await self._servers.shown(rest, request)
            case ["tools", *rest]:
                return await self._tools.shown(rest)
            case ["privacy", name]:
                return await self._tokens.shown(name)
            case ["permissions"]:
                return await self._permissions(request)
            case ["savings"]:
                return await self._savings(request)
            case ["page.css"]:
                return Response(STYLE, media_type="text/css")
            case ["live.js"]:
                return Response(SCRIPT, media_type="text/javascript")
        return self._message(404, "Nothing here", "There is no such page.")

    async def _posted(self, parts: list[str], request: Request) -> Response:
        form = await local_server.form_of(request)
        given = {} if form is None else _one_each(form)
        is_own = local_server.is_from_own_page(request, self.origin)
        if form is None or not is_own or not self._admission.is_own_form(given.get("token", "")):
            return self._message(403, "Refused", "The form came from another page.")
        match parts:
            case ["executions", name, "resume" | "replay" as action]:
                self._records.run_again(action, ExecutionId(name))
                return self._redirect(f"executions/{name}")
            case ["executions", name, "cancel"]:
                await self._records.cancel(ExecutionId(name))
                return self._redirect(f"executions/{name}")
            case ["approvals", name]:
                return await self._answer(ApprovalId(name), form)
            case ["servers", *rest]:
                return await self._servers.posted(rest, given)
            case ["privacy", name]:
                return await self._tokens.revealed(name)
        return self._message(404, "Nothing here", "There is no such form.")

    async def _executions(self, request: Request) -> Response:
        given = {name: value[:_MAX_SEARCH_CHARACTERS] for name, value in request.query_params.items()}
        query = _query(given)
        found = await self._records.search(query)
        older = None
        if found.older_than is not None:
            older = urlencode({**{name: it for name, it in given.items() if it}, "before": repr(found.older_than)})
        return await self._page(
            "executions",
            "executions",
            request,
            executions=found.executions,
            older=older,
            given={name: given.get(name, "") for name in ("text", "server", "tool", "status", "since", "until")},
            is_search=any(given.get(name) for name in ("text", "server", "tool", "status", "since", "until")),
            statuses=[it.value for it in ExecutionStatus],
            is_live=query.before is None,
        )

    async def _execution(self, execution_id: ExecutionId, request: Request) -> Response:
        after = request.query_params.get("after", "0")
        found = await self._records.execution(execution_id, after=int(after[:9]) if after.isdecimal() else 0)
        if found is None:
            return self._message(404, "Not recorded", f"No execution {execution_id} of yours is recorded (any more).")
        bars = _bars(found)
        marks: dict[int, list[int]] = {}
        for bar in bars:
            for line in bar.lines:
                marks.setdefault(line, []).append(bar.call.seq)
        is_running = found.record.status in UNFINISHED or (found.rerun is not None and found.rerun.is_running)
        rerun = "" if found.rerun is None else found.rerun.text
        known = await self._known_tokens(found.record.code, found.record.description, found.record.error, rerun)
        return await self._page(
            "execution", "executions", request, found=found, bars=bars, marks=marks, known=known, is_live=is_running
        )

    async def _call(self, execution_id: ExecutionId, seq: int) -> Response:
        found = await self._records.call(execution_id, seq)
        if found is None:
            return self._message(404, "Not recorded", "The journal has no such call of yours (any more).")
        known = await self._known_tokens(found.arguments, found.result, found.error)
        return await self._page("call", "executions", None, found=found, execution_id=execution_id, known=known)

    async def _known_tokens(self, *texts: str | None) -> Collection[str]:
        """The privacy tokens in these texts that stand for something."""
        return await self._token_records.known_in("\n".join(filter(None, texts)))

    async def _approval(self, approval_id: ApprovalId) -> Response:
        found = await self._records.approval(approval_id)
        if found is None or not found.is_open(time.time()):
            return self._message(404, "Nothing to answer", "This question has its answer, or its program has ended.")
        hidden = Markup('<input type="hidden" name="token" value="{}">').format(self._admission.form_token)
        action = f"{self._admission.base}/approvals/{found.approval_id}"
        body = Markup(question_html(found.question, action, str(hidden)))  # noqa: S704 - it escapes all that it shows
        question, form, answers = body.partition("<form")  # a link in a label would compete with its field
        known = await self._known_tokens(question.unescape())
        body = with_token_links(question, known, self._admission.base) + form + answers
        return await self._page("approval", "approvals", None, approval=found, body=body)

    async def _answer(self, approval_id: ApprovalId, form: bytes) -> Response:
        found = await self._records.approval(approval_id)
        answer = None if found is None else answer_of(form, found.question)
        if answer is None:
            return self._message(400, "Not understood", "Go back, and choose one of the answers.")
        await self._records.answer(approval_id, answer)
        return self._redirect("approvals")

    async def _permissions(self, request: Request) -> Response:
        call = request.query_params.get("call", "")[:_MAX_PARAMETER_CHARACTERS].strip()
        arguments = request.query_params.get("args", "")[:_MAX_PARAMETER_CHARACTERS].strip()
        explanation, problem = "", ""
        if call:
            try:
                explanation = await self._records.explain(call, arguments)
            except CodemodeError as error:
                problem = str(error)
        found = await self._records.permissions()
        return await self._page(
            "permissions",
            "permissions",
            None,
            found=found,
            call=call,
            arguments=arguments,
            explanation=explanation,
            problem=problem,
        )

    async def _savings(self, request: Request) -> Response:
        given = request.query_params.get("days", "")
        period = next((it for it in _PERIODS if str(it) == given), _PERIODS[1])
        found = await self._records.savings(period)
        return await self._page(
            "savings",
            "savings",
            None,
            found=found,
            period=period,
            periods=_PERIODS,
            method=METHOD,
            chart=charts.columns(found, time.time()),
            servers=charts.server_lengths(found),
            executions=charts.lengths(found.executions),
        )

    async def _page(
        self, template: str, section: str, request: Request | None, *, is_live: bool = False, **values: Any
    ) -> Response:
        questions = await self._records.open_questions()
        is_paused = request is not None and request.query_params.get("live") == "off"
        return page(
            template,
            base=self._admission.base,
            section=section,
            token=self._admission.form_token,
            waiting=len(questions),
            asked=dict(reversed(questions)),
            can_be_live=is_live,
            is_live=is_live and not is_paused,
            **values,
        )

    def _message(self, status: int, title: str, text: str) -> Response:
        return page("message", status=status, base=self._admission.base, title=title, text=text)

    def _redirect(self, path: str) -> Response:
        return RedirectResponse(f"{self._admission.base}/{path}", status_code=303)


def _bars(found: ExecutionDetail) -> list[Bar]:
    record = found.record
    tools = {(it.server, it.tool) for it in found.calls}
    names = {it: (name_alone(it[0], Kind.SERVER), name_alone(it[1], Kind.TOOL)) for it in tools}
    numbers = line_numbers(record.code or "", set(names.values())) if found.is_code_whole else {}
    lines = {raw: numbers.get(name, []) for raw, name in names.items()}
    ended = record.ended_at if record.ended_at is not None else time.time()
    return waterfall(found.calls, found.waits, found.retries, lines, began=record.started_at, ended=ended)


def _query(given: Mapping[str, str]) -> HistoryQuery:
    status = given.get("status", "")
    until, before = _day(given.get("until", "")), None
    with suppress(ValueError):
        before = float(given.get("before", ""))
    if before is None and until is not None:
        before = until + 86_400
    return HistoryQuery(
        text=given.get("text", "").strip(),
        server=given.get("server", "").strip(),
        tool=given.get("tool", "").strip(),
        status=ExecutionStatus(status) if status in set(ExecutionStatus) else None,
        since=_day(given.get("since", "")) or 0.0,
        before=before,
    )


def _day(text: str) -> float | None:
    """The beginning of a day on this machine's clock."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _one_each(form: bytes) -> dict[str, str]:
    try:
        given = parse_qs(form.decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[0] for name, values in given.items() if len(values) == 1}
