"""An MCP server over stdio with the standard library alone: it starts in 0.1 s, one of the SDK in a second.

A tool is a function with annotations. Its schemas and its answers are those of the SDK's `MCPServer`, in both eras of
the protocol. A tool that takes a `Call` as its first argument has a thread for each, can report progress and learns of
a cancellation; the others are called one after the other, in the order in which the calls came.
"""

from __future__ import annotations

import json
import sys
import threading
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

LEGACY, MODERN = "2025-11-25", "2026-07-28"
CAPABILITIES = {"tools": {"listChanged": True}}
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
F = TypeVar("F", bound=Callable[..., Any])


class ToolError(Exception):
    """Raised by a tool that fails; its text is the answer."""


class Call:
    """One call: the end of it that a tool sees."""

    def __init__(self, server: Server, token: Any) -> None:
        self.cancelled = threading.Event()
        self._server, self._token = server, token

    def report(self, progress: float, total: float, message: str) -> None:
        params = {"progressToken": self._token, "progress": progress, "total": total, "message": message}
        self._server.notify("notifications/progress", params)


class Server:
    def __init__(self, name: str) -> None:
        self.name = name
        self._tools: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {}
        self._waiting: set[str] = set()
        self._calls: dict[Any, Call] = {}
        self._writing = threading.Lock()
        self._listeners: list[Any] = []

    def tool(self, description: str | None = None, **more: Any) -> Callable[[F], F]:
        """Offers a function as a tool; `more` is added to what is listed of it."""

        def add(function: F) -> F:
            definition, takes_call = _definition(function)
            definition["description"] = description or function.__doc__ or ""
            self._tools[function.__name__] = ({**definition, **more}, function)
            if takes_call:
                self._waiting.add(function.__name__)
            return function

        return add

    def run(self) -> None:
        threads = []
        for line in sys.stdin:
            message = json.loads(line)
            method, params = message.get("method", ""), message.get("params") or {}
            if method == "tools/call":
                call = self._calls[message["id"]] = Call(self, params.get("_meta", {}).get("progressToken"))
                answering = threading.Thread(target=self._answer_call, args=(message["id"], params, call))
                if params["name"] in self._waiting:
                    threads.append(answering)
                    answering.start()
                else:
                    answering.run()
            elif method == "notifications/cancelled":
                if cancelled := self._calls.get(params.get("requestId")):  # it may end meanwhile, in its thread
                    cancelled.cancelled.set()
            elif method == "subscriptions/listen":
                self._listeners.append(message["id"])
                meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
                acknowledged = {"_meta": meta, "notifications": {"toolsListChanged": True}}
                self.notify("notifications/subscriptions/acknowledged", acknowledged)
            elif "id" in message and method:
                self._send({"id": message["id"], **self._result(method)})
        for call in list(self._calls.values()):
            call.cancelled.set()
        for thread in threads:
            thread.join(5)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def notify_tools_changed(self) -> None:
        for listener in self._listeners:
            meta = {"io.modelcontextprotocol/subscriptionId": listener}
            self.notify("notifications/tools/list_changed", {"_meta": meta})

    def _result(self, method: str) -> dict[str, Any]:
        about = {"name": self.name, "version": ""}
        match method:
            case "server/discover":
                versions = {"supportedVersions": [MODERN], "capabilities": CAPABILITIES}
                return {"result": {**versions, **_complete(about), "ttlMs": 0, "cacheScope": "private"}}
            case "initialize":
                return {"result": {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "serverInfo": about}}
            case "tools/list":
                tools = [definition for definition, _ in self._tools.values()]
                return {"result": {"tools": tools, **_complete(about), "ttlMs": 0, "cacheScope": "private"}}
            case "ping":
                return {"result": {}}
        return {"error": {"code": -32601, "message": f"no method {method}"}}

    def _answer_call(self, request: Any, params: dict[str, Any], call: Call) -> None:
        result = self._called(params, call) | _complete({"name": self.name, "version": ""})
        del self._calls[request]
        if not call.cancelled.is_set():
            self._send({"id": request, "result": result})

    def _called(self, params: dict[str, Any], call: Call) -> dict[str, Any]:
        name = params["name"]
        if name not in self._tools:
            return {"content": [_text(f"Unknown tool: {name}")], "isError": True}
        definition, function = self._tools[name]
        try:
            value = function(*([call] if name in self._waiting else []), **params.get("arguments") or {})
        except Exception as error:  # noqa: BLE001 - a tool may fail with anything
            return {"content": [_text(f"Error executing tool {name}: {error}")], "isError": True}
        if isinstance(value, dict) and "outputSchema" in definition:
            return {"content": [_text(value)], "structuredContent": value, "isError": False}
        content = [_text(item) for item in (value if isinstance(value, list) else [value])]
        structured = {"structuredContent": {"result": value}} if "outputSchema" in definition else {}
        return {"content": content, **structured, "isError": False}

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        with self._writing:
            sys.stdout.write(line)
            sys.stdout.flush()


def _complete(about: dict[str, Any]) -> dict[str, Any]:
    """What each result of the modern era has; the legacy one allows it."""
    return {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": about}}


def _text(value: Any) -> dict[str, str]:
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value, indent=2)}


def _definition(function: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """What is listed of a tool, and whether its first parameter is the `Call`."""
    name, hints = function.__name__, typing.get_type_hints(function)
    returns = hints.pop("return")
    parameters = list(hints)
    takes_call = hints.get(parameters[0]) is Call if parameters else False
    defaults = function.__defaults__ or ()
    optional = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    properties = {
        parameter: {**({"default": optional[parameter]} if parameter in optional else {}), **_schema(hints[parameter])}
        for parameter in parameters[takes_call:]
    }
    for parameter, schema in properties.items():
        schema["title"] = parameter.replace("_", " ").title()
    required = [parameter for parameter in properties if parameter not in optional]
    inputs: dict[str, Any] = {"type": "object", "properties": properties, "title": f"{name}Arguments"}
    if required:
        inputs["required"] = required
    listed: dict[str, Any] = {"name": name, "inputSchema": inputs}
    if typing.get_origin(returns) is dict:
        listed["outputSchema"] = {**_schema(returns), "title": f"{name}DictOutput"}
    elif returns is not Any:
        result = {"result": {**_schema(returns), "title": "Result"}}
        listed["outputSchema"] = {
            "type": "object",
            "properties": result,
            "required": ["result"],
            "title": f"{name}Output",
        }
    return listed, takes_call


def _schema(hint: Any) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1]) or True}
    if origin is typing.Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is types.UnionType:
        return {"anyOf": [_schema(each) for each in arguments]}
    raise TypeError(f"no schema for {hint}")
