"""The prompts of upstreams as prompts of ours, named `<server>/<prompt>`: for the person, whose host offers them.

What upstreams say is untrusted: texts are masked and cut, and each description begins with the server's name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp.types import PromptMessage
from pydantic import ValidationError

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.untrusted import one_line, prose
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.resources import PromptDefinition
from codemode_server.mcp_server.waiting import wait_for
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import clean

if TYPE_CHECKING:
    from codemode_server.mcp_server.product import ToolContext

MAX_PROMPTS = 200
"""Prompts of all servers together; a person chooses them from a menu. Of too many, each server has its share."""
MAX_ARGUMENT_CHARACTERS = 256 * 1024
"""All arguments of one prompt together."""
MAX_RESULT_CHARACTERS = 2 * 2**20
"""Messages of one prompt as JSON, with images in base64."""
_MAX_MESSAGES = 100
_PASSED_ON = frozenset(
    ["type", "text", "data", "blob", "mimeType", "uri", "name", "title", "description", "size", "resource"]
)
"""Keys of contents; others, such as icons, could hold files too."""
_DESCRIPTION_CHARACTERS = 600


def prompt_definitions(catalog: Catalog, redactor: Redactor) -> list[dict[str, Any]]:
    """The prompts as the protocol has them, for `prompts/list`."""
    having = [server for server in catalog.servers if server.prompts]
    taken, room = {}, MAX_PROMPTS
    for position, server in enumerate(sorted(having, key=lambda one: len(one.prompts))):
        taken[server.name] = min(len(server.prompts), room // (len(having) - position))
        room -= taken[server.name]
    return [
        _definition(server, prompt, redactor) for server in having for prompt in server.prompts[: taken[server.name]]
    ]


def prompt_named(catalog: Catalog, name: str) -> tuple[Server, PromptDefinition]:
    """The prompt of this name. Raises `MetaToolError`: there is none; names the nearest."""
    found = {_name(server, prompt): (server, prompt) for server in catalog.servers for prompt in server.prompts}
    if name not in found:
        meant = similar_name(name[:200], list(found))
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise MetaToolError(f'there is no prompt "{one_line(name, 200)}"{hint}')
    return found[name]


class Prompts:
    def __init__(self, catalog: Catalog, redactor: Redactor) -> None:
        self._catalog = catalog
        self._redactor = redactor

    def definitions(self) -> list[dict[str, Any]]:
        return prompt_definitions(self._catalog, self._redactor)

    async def get(self, name: str, arguments: dict[str, str], context: ToolContext) -> dict[str, Any]:
        """The messages of the prompt of this name, got as an execution of its own, through the same gateway as the
        calls of programs. Raises `MetaToolError`: there is none, the permissions or its server refuse it, or its
        messages can't be passed on."""
        product, caller = context.product, context.caller
        await product.tools.wait_for_listing()
        if sum(len(key) + len(value) for key, value in arguments.items()) > MAX_ARGUMENT_CHARACTERS:
            raise MetaToolError(
                f"{one_line(name, 200)}: the arguments of a prompt have at most {MAX_ARGUMENT_CHARACTERS:,} characters"
            )
        server, prompt = prompt_named(product.tools.current(), name)
        execution = product.executions.start_call(server.raw_name, prompt.name, {**arguments}, caller, is_prompt=True)
        await wait_for(execution, context)
        if execution.outcome.error is not None:
            raise MetaToolError(caller.redactor.visible(execution.outcome.error.message))
        result = execution.direct_call.result if execution.direct_call else {}
        unsearched = execution.unsearched_files()
        return await run_sized(is_large(result), _passed_on, name, result, caller.redactor, unsearched)


def _passed_on(name: str, result: dict[str, Any], redactor: Redactor, unsearched: str) -> dict[str, Any]:
    """The upstream's answer for the host, without secrets, invisible characters, messages of an unknown kind, and
    files if `unsearched` ones are to be refused; a remark follows one that is to be marked. Raises `MetaToolError`: it
    has no messages, or is too long for a conversation."""
    if len(json.dumps(result, ensure_ascii=False)) > MAX_RESULT_CHARACTERS:
        size = f"{MAX_RESULT_CHARACTERS // 2**20} MiB"
        raise MetaToolError(f"{one_line(name, 200)}: the server answered with more than {size}")
    result = redactor.value(result)
    listed, messages = result.get("messages"), []
    for raw in listed[:_MAX_MESSAGES] if isinstance(listed, list) else ():
        content = raw.get("content") if isinstance(raw, dict) else None
        if not isinstance(content, dict):
            continue
        passed = [content]
        if _is_file(content) and unsearched == "refuse":
            passed = [_remark("not shown: a file can't be searched for personal data (privacy.shown_files)")]
        elif _is_file(content) and unsearched == "mark":
            passed.append(_remark("the file above was not searched for personal data (privacy.shown_files)"))
        try:
            made = [PromptMessage.model_validate({"role": raw.get("role"), "content": _cleaned(it)}) for it in passed]
        except ValidationError:
            continue
        messages += [it.model_dump(by_alias=True, mode="json", exclude_none=True) for it in made]
    if not messages:
        raise MetaToolError(f"{one_line(name, 200)}: the server answered without messages that can be passed on")
    description = result.get("description")
    said = prose(description, _DESCRIPTION_CHARACTERS) if isinstance(description, str) else ""
    return {"messages": messages, "resultType": "complete"} | ({"description": said} if said else {})


def _remark(said: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{said}]"}


def _is_file(content: dict[str, Any]) -> bool:
    resource = content.get("resource")
    held = [content, resource] if isinstance(resource, dict) else [content]
    return any("data" in it or "blob" in it or str(it.get("uri")).lower().startswith("data:") for it in held)


def _cleaned(content: dict[str, Any]) -> dict[str, Any]:
    kept = {key: clean(it) if isinstance(it, str) else it for key, it in content.items() if key in _PASSED_ON}
    if isinstance(resource := kept.get("resource"), dict):
        kept["resource"] = _cleaned(resource)
    return kept


def _name(server: Server, prompt: PromptDefinition) -> str:
    return f"{server.name}/{prompt.name}"


def _definition(server: Server, prompt: PromptDefinition, redactor: Redactor) -> dict[str, Any]:
    said = prose(prompt.description, _DESCRIPTION_CHARACTERS) or one_line(prompt.title, 200)
    title = one_line(prompt.title, 80)
    return {
        "name": _name(server, prompt),
        **({"title": redactor.text(f"{server.name}: {title}")} if title else {}),
        "description": redactor.text(f"[{server.name}] {said or prompt.name}"),
        "arguments": [
            {
                "name": argument.name,
                **({"description": redactor.text(text)} if (text := one_line(argument.description, 300)) else {}),
                "required": argument.is_required,
            }
            for argument in prompt.arguments
        ],
    }
