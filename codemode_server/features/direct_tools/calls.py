"""Calls a direct tool for the host, as an execution of its own through the same gateway as the calls of programs, and
passes on the result: the upstream's content blocks, masked and cut like other results.

A text that exceeds `limits.output_tokens` is cut as values and printed text are, and the whole value is stored for a
program. Images and files pass up to `limits.shown_files` and `limits.shown_bytes`. Nothing else of a block is passed:
its annotations and `_meta` are the upstream's word.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import JsonValue
from codemode_server.executions.execution import Execution
from codemode_server.mcp_server.blocks import MAX_BYTES
from codemode_server.mcp_server.product import ToolContext
from codemode_server.mcp_server.rendering import MAX_CHARACTERS, MAX_ERROR_CHARACTERS, cut_line, shape_of
from codemode_server.mcp_server.shortening import as_text, fit_value, shares
from codemode_server.mcp_server.tools.registry import Answer
from codemode_server.mcp_server.waiting import host_input, resumed, wait_for
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import clean_line
from codemode_server.support.tokens import estimate_tokens
from codemode_server.upstreams.file_types import type_of_base64
from codemode_server.upstreams.text_values import parse_document

_MAX_BLOCKS = 100
_MIN_TOKENS = 50
_MAX_NAME_CHARACTERS = 200
_MAX_URI_CHARACTERS = 2_000
_ROOM_FOR_THE_REST = 10_000
_UNSEARCHED = "cut: {} is not shown: it can't be searched for personal data (privacy.shown_files)"
_LINK_REMARK = (
    "note: links of this server can't be read by the host; a program that calls this tool reads them: its result has "
    ".files, file.text fetches one"
)


async def call_direct_tool(server: str, tool: str, arguments: dict[str, Any], context: ToolContext) -> Answer:
    """Call the tool of these raw names. Raises `MetaToolError`: it is not offered any more."""
    _require_exposed(server, tool, context)
    caller, executions = context.caller, context.product.executions
    execution = resumed(context) or executions.start_call(server, tool, arguments, caller, host_input(context.host))
    if (asked := await wait_for(execution, context)) is not None:
        return asked
    result = execution.direct_call.result if execution.direct_call else {}
    limits, redactor = caller.config.settings.limits, caller.redactor
    answer = await run_sized(is_large(result), direct_answer, execution, limits, redactor)
    return replace(answer, execution=execution)


def _require_exposed(server: str, tool: str, context: ToolContext) -> None:
    """The session knows the tool from an earlier listing; the configuration or the upstream may have changed since."""
    own = context.caller.config.settings.servers.get(server)
    listed = {(it.raw_name, one.raw_name) for it in context.product.tools.current().servers for one in it.tools}
    title = context.caller.redactor.text(clean_line(f"{server}.{tool}", 200))
    if own is None or not own.is_direct(tool):
        raise MetaToolError(f"{title}: the edited upstream.yaml no longer offers it as a tool; use execute_code")
    if (server, tool) not in listed:
        raise MetaToolError(f"{title}: the server no longer has this tool; search_tools finds what it has now")


def direct_answer(execution: Execution, limits: LimitSettings, redactor: Redactor) -> Answer:
    """A settled direct call as a result of the protocol, never larger than hosts take."""
    call, is_error = execution.direct_call, execution.status is not ExecutionStatus.SUCCEEDED
    result = call.result if call else {}
    if not result:
        return Answer(_error_text(execution, redactor), {}, is_error=True)
    tokens = limits.output_tokens
    blocks = _Blocks(limits, redactor, execution.unsearched_files())
    for item in _items(result)[:_MAX_BLOCKS]:
        blocks.add(item)
    blocks.fit_texts(tokens, MAX_ERROR_CHARACTERS if is_error else MAX_CHARACTERS)
    remarks = [*blocks.remarks, *(f"note: {redactor.line(line, 300)}" for line in execution.calls.messages)]
    if blocks.cut_tokens:
        whole = shape_of(execution.outcome.value, redactor)
        remarks.append(f"cut: {cut_line(execution, 'value', whole, blocks.cut_tokens)}")
    if (more := len(_items(result)) - _MAX_BLOCKS) > 0:
        remarks.append(f"cut: {more:,} more blocks are not shown")
    content = [*blocks.made]
    if remarks:
        content.append({"type": "text", "text": "\n".join(f"[{remark}]" for remark in remarks)})
    if not content:
        content.append({"type": "text", "text": "[the tool returned nothing]"})
    structured = redactor.value(result.get("structuredContent"))
    is_whole = isinstance(structured, dict) and not blocks.cut_tokens and len(as_text(structured)) < MAX_BYTES // 4
    return Answer("", structured if is_whole and isinstance(structured, dict) else {}, content, is_error)


def _error_text(execution: Execution, redactor: Redactor) -> str:
    error = execution.outcome.error
    message = error.message if error else execution.status.value
    notes = [f"[note: {redactor.line(line, 300)}]" for line in execution.calls.messages]
    return "\n".join([redactor.visible(message)[:MAX_ERROR_CHARACTERS], *notes[:3]])


def _items(result: dict[str, JsonValue]) -> list[Any]:
    """The content blocks; where there are none, the structured content as a text."""
    content = result.get("content")
    items = content if isinstance(content, list) else []
    structured = result.get("structuredContent")
    return items or ([] if structured is None else [{"type": "text", "text": as_text(structured)}])


@dataclass(slots=True)
class _Blocks:
    limits: LimitSettings
    redactor: Redactor
    unsearched: str = "show"
    """Handling of files, which can't be searched for personal data."""
    made: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    cut_tokens: int = 0
    """Tokens of all texts together, if one of them was cut."""
    _files: int = 0
    _file_bytes: int = 0
    _texts: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def add(self, item: Any) -> None:
        """Add a block of the upstream's; one of an unknown kind as JSON."""
        match item:
            case {"type": "text", "text": str(text)}:
                self._add_text(text)
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                if self._takes(data, item):
                    its_type = self._mime_type(item) or type_of_base64(data) or "application/octet-stream"
                    self.made.append({"type": kind, "data": data, "mimeType": its_type})
            case {"type": "resource", "resource": {"text": str(text), **resource}}:
                contents = self._resource(resource, "file:///text") | {"text": ""}
                self.made.append({"type": "resource", "resource": contents})
                self._texts.append((contents, text))
            case {"type": "resource", "resource": {"blob": str(data), **resource}}:
                if self._takes(data, resource):
                    contents = self._resource(resource, "file:///blob") | {"blob": data}
                    self.made.append({"type": "resource", "resource": contents})
            case {"data": _} | {"blob": _} if self.unsearched != "show":
                self.remarks.append(_UNSEARCHED.format("a block of an unknown kind"))
            case {"type": "resource_link", "uri": str(uri)} if self.unsearched != "show" and uri.lower().startswith(
                "data:"
            ):
                self.remarks.append(_UNSEARCHED.format("a link that holds its file"))
            case {"type": "resource_link", "uri": str(uri)} if len(uri) <= _MAX_URI_CHARACTERS:
                if not uri.lower().startswith(("https:", "http:")) and _LINK_REMARK not in self.remarks:
                    self.remarks.append(_LINK_REMARK)
                name = self._line(item.get("name"), _MAX_NAME_CHARACTERS) or "link"
                said = self._line(item.get("description"), 300)
                link = {"type": "resource_link", "name": name} | self._resource(item, "")
                self.made.append(link | ({"description": said} if said else {}))
            case _:
                self._add_text(json.dumps(item, ensure_ascii=False))

    def fit_texts(self, budget_tokens: int, max_characters: int) -> None:
        """Cut the texts to the budgets, each to its share."""
        texts = [text for _, text in self._texts]
        wanted = [estimate_tokens(text) for text in texts]
        tokens = shares(wanted, budget_tokens)
        room = shares([len(text) for text in texts], max_characters)
        for (block, text), share, characters in zip(self._texts, tokens, room, strict=True):
            block["text"] = self._fitted(text, max(share, _MIN_TOKENS), max(characters, _MIN_TOKENS))
        if self.cut_tokens:
            self.cut_tokens = sum(wanted)

    def _fitted(self, text: str, budget_tokens: int, max_characters: int) -> str:
        fits = len(text) <= max_characters and estimate_tokens(text) <= budget_tokens
        value = text if fits else parse_document(text)
        fitted = fit_value(value, budget_tokens, max_characters, self.redactor.visible)
        self.cut_tokens = self.cut_tokens or int(fitted.is_cut)
        return fitted.text

    def _add_text(self, text: str) -> None:
        block = {"type": "text", "text": ""}
        self.made.append(block)
        self._texts.append((block, text))

    def _takes(self, data: str, item: Mapping[Any, Any]) -> bool:
        """True if there is room for a file in base64; otherwise a remark says why it is missing."""
        title = f"{self._mime_type(item) or 'a file'} of {len(data) * 3 // 4:,} bytes"
        room = min(self.limits.shown_bytes, MAX_BYTES - MAX_CHARACTERS - _ROOM_FOR_THE_REST)
        if not _is_base64(data):
            self.remarks.append(f"cut: {title} is not shown, since it is not valid base64")
        elif self.unsearched == "refuse":
            self.remarks.append(_UNSEARCHED.format(title))
        elif self._files >= self.limits.shown_files:
            self.remarks.append(f"cut: {title} is not shown (limits.shown_files); a program can save or show it")
        elif self._file_bytes + len(data) > room:
            self.remarks.append(f"cut: {title} is not shown (limits.shown_bytes); a program can save or shrink it")
        else:
            self._files += 1
            self._file_bytes += len(data)
            if self.unsearched == "mark":
                self.remarks.append(f"note: {title} was not searched for personal data")
            return True
        return False

    def _resource(self, item: Mapping[Any, Any], unknown: str) -> dict[str, Any]:
        about, mime_type = {"uri": self._line(item.get("uri"), _MAX_URI_CHARACTERS) or unknown}, self._mime_type(item)
        return about | ({"mimeType": mime_type} if mime_type else {})

    def _mime_type(self, item: Mapping[Any, Any]) -> str | None:
        return self._line(item.get("mimeType"), 100) or None

    def _line(self, value: Any, limit: int) -> str:
        return self.redactor.text(clean_line(value, limit)) if isinstance(value, str) else ""


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
