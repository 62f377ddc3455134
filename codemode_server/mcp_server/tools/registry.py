"""The meta-tools, each described by a value: a module of this folder that has a `META_TOOL` is one.

`tools/list`, the check of arguments and the dispatch of calls go through `meta_tools()`; nothing else names a
meta-tool. A host may get the list before the MCP library is imported, so a module here imports only what its text
needs; its handler imports the rest.

Every word of the list costs every user tokens: what does not depend on the user's servers stays, with the instructions,
under 1,200 tokens with the default settings. Hosts show different parts of it: some leave out the instructions, Qwen
Code shows 150 characters of a description until the tool is used, Claude Code cuts a description at 2 KB. So each first
sentence says what the tool is for, and the rules for programs are with the argument `code`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from codemode_server.calls.policy.rules import PermissionRules
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import CodemodeError
from codemode_server.mcp_server import tools as package
from codemode_server.mcp_server.listing import Listing

if TYPE_CHECKING:
    from codemode_server.domain.input_requests import InputRequest
    from codemode_server.executions.execution import Execution
    from codemode_server.mcp_server.product import ToolContext

READS: Mapping[str, bool] = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
"""Annotations of a meta-tool that changes nothing."""
TEXT_RESULT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
"""Output schema of a meta-tool whose structured content is its text."""


class ToolArguments(BaseModel):
    """The arguments of a meta-tool; unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


@dataclass(frozen=True, slots=True)
class Description:
    """Description of a meta-tool that a host shows its model."""

    text: str
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Additions to the schemas of arguments that depend on the settings or the servers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one call of a meta-tool."""

    text: str
    content: dict[str, Any]
    """The structured content."""
    blocks: Sequence[Mapping[str, Any]] = ()
    """Images and files that follow the text."""
    is_error: bool = False
    input_requests: Mapping[str, InputRequest] = field(default_factory=dict)
    """Requests to the host first; it repeats its call with the answers and `state`."""
    state: str = ""
    execution: Execution | None = None
    """The execution that it is about: settled, or waiting for a person."""

    def as_result(self, *, has_structured_content: bool = True) -> dict[str, Any]:
        if self.input_requests:
            requests = {
                key: {"method": it.method, "params": dict(it.params)} for key, it in self.input_requests.items()
            }
            return {"resultType": "input_required", "inputRequests": requests, "requestState": self.state}
        text = [{"type": "text", "text": self.text}] if self.text or not self.blocks else []
        result = {"content": [*text, *self.blocks], "isError": self.is_error, "resultType": "complete"}
        return result | {"structuredContent": self.content} if self.content and has_structured_content else result


Arguments = TypeVar("Arguments", bound=ToolArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaToolSpec(Generic[Arguments]):
    name: str
    title: str
    arguments: type[Arguments]
    describe: Callable[[Settings, Listing], Description]
    annotations: Mapping[str, bool]
    output_schema: Mapping[str, Any]
    handle: Callable[[Arguments, ToolContext], Awaitable[Answer]]
    """Raises `CodemodeError` with a message for the model."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Additions to the `_meta` of the definition."""
    unbounded_arguments: frozenset[str] = frozenset()
    """Texts that may be longer than `mcp_server.arguments.MAX_CHARACTERS`, since no answer quotes them."""
    shows_failure: bool = False
    """True if the reason why the product can't start is a normal answer; otherwise it is an error."""

    async def answer(self, arguments: Arguments, context: ToolContext) -> Answer:
        """The answer to a call; an error of ours as one."""
        try:
            return await self.handle(arguments, context)
        except CodemodeError as error:
            return Answer(str(error), {}, is_error=True)

    @property
    def parameters(self) -> str:
        """`path, limit?`, for messages about wrong arguments."""
        fields = self.arguments.model_fields.items()
        return ", ".join(name + ("" if info.is_required() else "?") for name, info in fields)


@cache
def meta_tools() -> Mapping[str, MetaToolSpec[Any]]:
    """Every meta-tool by its name, in the order of `tools/list`: those that change nothing first, then by name."""
    names = [module.name for module in iter_modules(package.__path__) if module.name != "registry"]
    specs: list[MetaToolSpec[Any]] = [import_module(f"{package.__name__}.{name}").META_TOOL for name in names]
    return {spec.name: spec for spec in sorted(specs, key=lambda it: (not it.annotations["readOnlyHint"], it.name))}


NO_SERVERS = Listing()
_LOADED_AT_ONCE = {"anthropic/alwaysLoad": True}
"""Without this, Claude Code shows only the names of the tools and finds them by a search that knows no servers."""


def definitions(settings: Settings, servers: Listing = NO_SERVERS) -> list[dict[str, Any]]:
    """Always the same tools, in the same order."""
    return [_definition(spec, settings, servers) for spec in meta_tools().values()]


def _definition(spec: MetaToolSpec[Any], settings: Settings, servers: Listing) -> dict[str, Any]:
    description = spec.describe(settings, servers)
    arguments: type[BaseModel] = spec.arguments
    schema = _schema(arguments)
    properties = {
        name: {**field, **description.arguments.get(name, {})} for name, field in schema["properties"].items()
    }
    has_output_schema = settings.results.structured_content
    return {
        "name": spec.name,
        "title": spec.title,
        "description": description.text,
        "inputSchema": schema | {"properties": properties},
        **({"outputSchema": dict(spec.output_schema)} if has_output_schema else {}),
        "annotations": annotations_of(spec, settings),
        "_meta": {**_LOADED_AT_ONCE, **spec.meta},
    }


def annotations_of(spec: MetaToolSpec[Any], settings: Settings) -> dict[str, bool]:
    """The annotations of a meta-tool; for one that calls tools, by what the permissions let pass."""
    if spec.annotations["readOnlyHint"]:
        return dict(spec.annotations)
    rules = PermissionRules(settings.permissions)
    destroys = rules.may_pass("destructive")
    return {
        **spec.annotations,
        "readOnlyHint": not destroys and not rules.may_pass("write"),
        "destructiveHint": destroys,
    }


@cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema without titles, and without null for optional arguments; null is still accepted. pydantic takes
    milliseconds for each schema, and hosts wait for the list. The result is not to be changed."""
    schema = arguments.model_json_schema()
    properties = {name: _property(field) for name, field in schema["properties"].items()}
    dropped = ("title", "description")
    return {key: value for key, value in schema.items() if key not in dropped} | {"properties": properties}


def _property(field: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in field.items() if key != "title"}
    match short:
        case {"anyOf": [dict(one), {"type": "null"}], "default": None}:
            return one | {key: value for key, value in short.items() if key not in ("anyOf", "default")}
    return short
