"""The pages of reports: a table for each, the text of one row, or a file of it.

Reports hold what programs and servers wrote. Secrets of the configuration are masked here, templates escape the rest,
and a file is only ever downloaded: a browser that showed it would run what a program wrote, in the origin of the pages.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from codemode_server.features import provided
from codemode_server.features.pages.log_report import LOG
from codemode_server.features.pages.site import Site
from codemode_server.features.pages.tool_report import TOOLS
from codemode_server.records.audit_rows import AUDIT
from codemode_server.records.executions import Records
from codemode_server.records.reports import Cell, Column, Download, ReportPage
from codemode_server.records.workspace_files import WORKSPACE
from codemode_server.support.text import legible

_MAX_GIVEN_CHARACTERS = 100


class ReportPages:
    def __init__(self, site: Site, records: Records) -> None:
        self._site = site
        self._records = records
        found: list[ReportPage] = [TOOLS, *provided("report"), WORKSPACE, AUDIT, LOG]
        for it in found:
            site.more.append((it.name, it.title))
            site.get(it.name, partial(self._report, it))
            if it.item is not None:
                site.get(f"{it.name}/{{key}}", partial(self._item, it))

    async def _report(self, page: ReportPage, request: Request) -> Response:
        given = request.query_params.get("show", "")[:_MAX_GIVEN_CHARACTERS]
        is_first = not given or given in page.choices
        report = await page.read(self._records, given)
        return await self._site.page(
            "report",
            page.name,
            request,
            is_live=page.is_live and is_first,
            page=page,
            report=report,
            rows=[(it.link, [*map(self._shown, page.columns, it.cells)]) for it in report.rows],
            about=[self._records.config.redactor.text(it) for it in report.about],
            chosen=given,
        )

    async def _item(self, page: ReportPage, request: Request) -> Response:
        mask = self._records.config.redactor.text
        found = await page.item(self._records, request.path_params["key"]) if page.item is not None else None
        if found is None:
            return self._site.message(404, "Nothing here", "It is not there any more, or was changed meanwhile.")
        if isinstance(found, Download):
            headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{_file_name(found.name)}"}
            return StreamingResponse(found.content, media_type="application/octet-stream", headers=headers)
        facts = [(name, mask(value)) for name, value in found.facts]
        return await self._site.page(
            "report_item", page.name, page=page, title=mask(found.title), facts=facts, text=mask(found.text)
        )

    def _shown(self, column: Column, cell: Cell) -> Any:
        """A text as its lines."""
        if column.kind == "text":
            lines = cell if isinstance(cell, tuple) else (str(cell),)
            return list(map(self._records.config.redactor.text, lines))
        return cell


def _file_name(name: str) -> str:
    """For the header: nothing in it turns the text around, so that a name ends as it looks."""
    return quote(legible(name), safe="")
