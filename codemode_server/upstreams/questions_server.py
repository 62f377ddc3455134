"""The server behind `questions: true`: one tool that shows the user a form, and checks the answers.

It is reached through the gateway like every server, so the questions of programs are decided by the permissions, are in
the journal, so that a program that runs again does not ask twice, and reach the user with the server's name and the
warnings that all forms get.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, ConfigDict, Field

MAX_ROUNDS = 3
"""How often a form is shown until its answers are valid."""
_KEY = "form"
_DESCRIPTION = (
    "Ask the user by a form in the host. Gives {'action': 'accept' | 'decline' | 'cancel', 'values': {name: answer}}. "
    "Never ask for passwords or other secrets."
)


class QuestionField(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")]
    type: Literal["text", "number", "integer", "boolean", "choice"] = "text"
    title: str = ""
    description: str = ""
    required: bool = True
    default: str | int | float | bool | None = None
    options: list[str] = []
    """Options of a choice."""
    min: float | None = None
    """Minimum of a number, or of the length of a text."""
    max: float | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    """The host checks it; an address of mail and a date are checked here too."""

    @property
    def schema_(self) -> dict[str, Any]:
        kind = "string" if self.type in ("text", "choice") else self.type
        bounds = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
        given: dict[str, Any] = {
            "title": self.title or None,
            "description": self.description or None,
            "default": self.default,
            "enum": self.options or None,
            "format": self.format if self.type == "text" else None,
        }
        if kind != "boolean" and self.type != "choice":
            limits = (self.min, self.max)
            given |= {
                name: None if limit is None else int(limit) if kind in ("string", "integer") else limit
                for name, limit in zip(bounds, limits, strict=True)
            }
        return {"type": kind, **{name: value for name, value in given.items() if value is not None}}

    def problem(self, value: Any) -> str:
        """Why an answer is not valid; empty if it is."""
        called = self.title or self.name
        if value is None or value == "":
            return f"{called} is missing" if self.required else ""
        validator = Draft202012Validator(self.schema_, format_checker=Draft202012Validator.FORMAT_CHECKER)
        error = next(validator.iter_errors(value), None)
        return f"{called}: {error.message}" if error is not None else ""


def questions_server() -> MCPServer[Any]:
    """The server; it holds no state."""
    server: MCPServer[Any] = MCPServer("questions", instructions="Asks the user of this program.")

    @server.tool(
        description=_DESCRIPTION, annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    )
    async def ask(
        message: Annotated[str, Field(max_length=2_000)],
        fields: Annotated[list[QuestionField], Field(min_length=1, max_length=30)],
        context: Context[Any, Any],
    ) -> types.CallToolResult | types.InputRequiredResult:
        responses = context.input_responses or {}
        if _KEY not in responses:
            return _question(message, fields, 1)
        answer = responses[_KEY].model_dump(by_alias=True, mode="json")
        is_accepted, given = answer.get("action") == "accept", answer.get("content") or {}
        problem = "; ".join(filter(None, (it.problem(given.get(it.name)) for it in fields if is_accepted)))
        if not problem:
            values = {it.name: given.get(it.name) for it in fields if is_accepted}
            content: dict[str, Any] = {"action": answer.get("action", "cancel"), "values": values}
            text = types.TextContent(type="text", text=json.dumps(content))
            return types.CallToolResult(content=[text], structured_content=content)
        rounds = int(context.request_state or 1)
        if rounds < MAX_ROUNDS:
            return _question(f"{message}\n\nPlease correct your answer: {problem}.", fields, rounds + 1)
        why = f"the answers are not valid after {MAX_ROUNDS} forms: {problem}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=why)], is_error=True)

    return server


def _question(message: str, fields: list[QuestionField], rounds: int) -> types.InputRequiredResult:
    required = [it.name for it in fields if it.required]
    schema = {"type": "object", "properties": {it.name: it.schema_ for it in fields}}
    schema |= {"required": required} if required else {}
    params = types.ElicitRequestFormParams.model_validate(
        {"mode": "form", "message": message, "requestedSchema": schema}
    )
    return types.InputRequiredResult(
        input_requests={_KEY: types.ElicitRequest(params=params)}, request_state=str(rounds)
    )
