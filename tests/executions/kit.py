"""What the tests of the check share: small catalogs, the real ones, and a program's findings as lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from codemode_server.calls.policy.refusals import Refusals
from codemode_server.catalog.catalog import Catalog
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import PermissionSettings, Settings, TypeSettings
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.executions.preflight.findings import Finding
from codemode_server.executions.preflight.preflight import CheckContext, Checked, Preflight
from codemode_server.features.skills.library import ProjectSkills, SkillLibrary

ME = Owner(Principal(PrincipalId("me")), Session("s1"))


def with_skills(folder: Path, importable: frozenset[str]) -> CheckContext:
    """The skills in a project's folder, as the check sees them."""
    library = SkillLibrary(ProjectSkills(folder), folder / "state", LiveConfig(Settings()))
    return CheckContext(importable, why_no_skill=partial(library.why_missing, ME))


SHARED = Path(__file__).parents[3] / "shared"
TEXT = {"type": "string"}
ISSUE = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "title": TEXT, "labels": {"type": "array", "items": TEXT}},
    "required": ["number", "title"],
    "additionalProperties": False,
}


def tool(
    name: str,
    properties: dict[str, Any],
    required: Iterable[str] = (),
    gives: dict[str, Any] | None = None,
    **more: Any,
) -> ToolDefinition:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return ToolDefinition(name, "", None, schema, gives)


def lone(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result that reaches the program as what it holds."""
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


GITHUB = (
    tool(
        "list_issues",
        {
            "repo": TEXT,
            "state": {"enum": ["open", "closed", "all"]},
            "labels": {"type": "array", "items": TEXT},
            "limit": {"type": "integer"},
        },
        ["repo"],
        lone({"type": "array", "items": ISSUE}),
    ),
    tool("get_issue", {"repo": TEXT, "number": {"type": "integer"}}, ["repo", "number"], ISSUE),
    tool(
        "create_issue",
        {"owner": TEXT, "title": TEXT, "auth-method": TEXT},
        ["owner", "title"],
        {"type": "object", "properties": {"number": {"type": "integer"}, "url": TEXT}, "required": ["number"]},
    ),
    tool("boom", {}),
    tool("search", {"query": TEXT}, ["query"], lone({"anyOf": [TEXT, {"type": "null"}]})),
    tool("update", {"data": {"type": "object"}, "key": TEXT}, ["data"]),
    tool("echo", {}, additionalProperties=True),
)
DRIVE = (tool("get_document", {"documentId": TEXT}, ["documentId"]), tool("get_sheet", {"sheetId": TEXT}, ["sheetId"]))


def listing(name: str, *tools: ToolDefinition, state: UpstreamState = UpstreamState.READY) -> UpstreamListing:
    return UpstreamListing(name, state, tools)


OFFICE = Catalog.build([listing("github", *GITHUB), listing("google_drive", *DRIVE)])


def real_catalog() -> Catalog:
    """The tools of real servers, where their listings are at hand."""
    files = sorted((SHARED / "toolsets").glob("*.json"))
    if not files:
        pytest.skip(f"no captured tool lists in {SHARED / 'toolsets'}")
    return Catalog.build(
        listing(
            file.stem,
            *(
                ToolDefinition(it["name"], it.get("description") or "", None, it["inputSchema"], it.get("outputSchema"))
                for it in json.loads(file.read_text())["tools"]
            ),
        )
        for file in files
    )


@asynccontextmanager
async def preflight(
    catalog: Catalog = OFFICE,
    *,
    strictness: Literal["errors", "warnings", "none"] = "errors",
    permissions: dict[str, Any] | None = None,
) -> AsyncIterator[Preflight]:
    async def listed() -> None:
        return None

    allowed = PermissionSettings.model_validate(permissions or {})
    config = LiveConfig(Settings(types=TypeSettings(check=strictness), permissions=allowed))
    yield Preflight(catalog=lambda: catalog, listed=listed, config=config)


async def checked(code: str, catalog: Catalog = OFFICE, **options: Any) -> Checked:
    async with preflight(catalog, **options) as check:
        permissions = PermissionSettings.model_validate(options.get("permissions") or {})
        config = LiveConfig(Settings(permissions=permissions))
        refusals = Refusals(config).for_principal(Caller.of(Session("s"), config))
        return await check.check(code, CheckContext(refusal_of=refusals.of))


def lines(findings: Iterable[Finding]) -> list[str]:
    return [f"{finding.line}: {finding.message}" for finding in findings]


async def errors(code: str, catalog: Catalog = OFFICE) -> list[str]:
    """What stops the program; nothing else may be found."""
    found = await checked(code, catalog)
    assert not found.warnings, lines(found.warnings)
    return lines(found.errors)


async def warnings(code: str, catalog: Catalog = OFFICE) -> list[str]:
    """What is doubtful about a program that is not stopped."""
    found = await checked(code, catalog)
    assert not found.errors, lines(found.errors)
    return lines(found.warnings)
