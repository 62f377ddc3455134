"""What the model may read of a tool's definition before the person has accepted it. Pure.

A description can be written to talk a model into something, so the texts are those of the definition that was accepted
last. The schemas are the present ones, since calls need them; of the words in them, those remain that were accepted or
that read like the name of a parameter or of a choice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from codemode_server.domain.definitions import fields_of
from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.tools import ToolDefinition
from codemode_server.field_names import is_field_name
from codemode_server.json_texts import texts_in

SHOWN_AS_ACCEPTED = "Its server changed this tool; the description is the one that the user accepted."
NOT_SHOWN = "The user has not accepted this tool as it is now, so its description is not shown."
_TEXTS = frozenset({"title", "description", "$comment", "examples", "default"})
"""Keywords whose words are for a reader, so none of them is needed for a call."""
_DIALECT = re.compile(r"https?://json-schema\.org/[\w./-]{1,40}#?")
_LEFT_OUT = object()


def readable_definition(tool: ToolDefinition, accepted_text: str) -> ToolDefinition:
    """The tool with nothing for the model to read that is not in `accepted_text`, the canonical text of the accepted
    definition; without one, empty. Its digest remains that of the present definition."""
    accepted = fields_of(accepted_text)
    words = _Words(accepted)
    description = str(accepted.get("description") or "")
    output = tool.output_schema
    return replace(
        tool,
        description=description,
        title=str(accepted.get("title") or "") or None,
        input_schema=words.schema(tool.input_schema),
        output_schema=None if output is None else words.schema(output),
        remark=SHOWN_AS_ACCEPTED if description else NOT_SHOWN,
    )


class _Words:
    """The words of an accepted definition."""

    def __init__(self, accepted: dict[str, Any]) -> None:
        self._accepted = frozenset(
            " ".join(text.split()) for text in texts_in([accepted.get("inputSchema"), accepted.get("outputSchema")])
        )

    def schema(self, schema: JsonSchema) -> JsonSchema:
        """The schema without words that nobody accepted."""
        try:
            found = self._value(schema, "")
        except RecursionError:
            return {"type": "object"}
        return found if isinstance(found, dict) else {"type": "object"}

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return value if self._is_readable(value, key) else _LEFT_OUT
        if isinstance(value, dict):
            items = ((name, self._value(item, name)) for name, item in value.items() if self._is_readable(name, ""))
            return {name: item for name, item in items if item is not _LEFT_OUT}
        if isinstance(value, list):
            items_ = [self._value(item, key) for item in value]
            readable = [item for item in items_ if item is not _LEFT_OUT]
            return readable if key == "required" or len(readable) == len(items_) else _LEFT_OUT
        return value

    def _is_readable(self, text: str, key: str) -> bool:
        if " ".join(text.split()) in self._accepted:
            return True
        if key in _TEXTS:
            return False
        if key == "$ref":
            return all(is_field_name(part) for part in text.removeprefix("#").split("/") if part)
        return is_field_name(text) or (key == "$schema" and bool(_DIALECT.fullmatch(text)))
