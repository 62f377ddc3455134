"""Sanitizes and bounds input requests sent to the host, and the answers returned to the upstream.

Both are bounded and without secrets of the configuration. A request names its server, since a person has to know who
asks. The parts that the protocol knows are taken one by one; everything else in a request or an answer is dropped.
"""

from __future__ import annotations

import ipaddress
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.support.json_values import texts_in, with_texts_mapped
from codemode_server.support.redaction import Redactor
from codemode_server.support.text import clean

MAX_REQUEST_BYTES = 256 * 1024
"""Maximum size of a request or an answer, as JSON."""
MAX_MESSAGE_CHARACTERS = 2_000
MAX_FIELDS = 30
"""Maximum per form."""
MAX_TOKENS = 16_384
"""Maximum of one sampling request; more is lowered to it."""
MAX_ROOTS = 100
_MAX_URL_CHARACTERS = 2_000
_FIELD_TYPES = ("string", "number", "integer", "boolean", "array")
_FORM_WARNING = (
    " This form seems to ask for a secret. The protocol forbids that: what you enter is not protected. Decline, unless"
    " you are sure."
)
_SECRET_WORDS = re.compile(
    r"pass ?w(?:or|ört)|passw|pass ?(?:code|phrase)|kennwort|\bsecret\b(?! santa)|credential"
    r"|\b(?:api|private|access|secret) ?keys?\b|\bt?otp\b|\b(?:2|m)fa code|\bone ?time ?(?:code|key|pass)"
    r"|\b(?:access|api|auth\w*|bearer|refresh|personal|your) tokens?\b|\btoken$|^pin(?: code)?$"
    r"|\b(?:verification|security|authenticat\w{1,6}|backup|recovery|login|sms) ?codes?\b"
    r"|\b(?:recovery|seed|backup) ?(?:phrase|words?)\b|\bmnemonic|\bcv[vc]2?\b|card ?number|social ?security|\bssn\b"
)
"""Words of forms that ask for a secret. A warning that comes too often is no longer read, so words that also
have a harmless meaning (`seed`, `tokens`) do not count."""
_BETWEEN_WORDS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.?", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@%;\\]+)(:[0-9]*)?", re.IGNORECASE)
_SHOWN = ("title", "description")
"""Texts of fields that the person reads."""
_WIDE = re.compile(r"[^\S\n]{4,}")
_EMPTY_LINES = re.compile(r"\n\s*\n")
_CONTENT = {"text": ("text",), "image": ("data", "mimeType"), "audio": ("data", "mimeType")}
"""Kinds of content of sampling messages, with their fields."""


def forwarded_request(request: InputRequest, server: str, redactor: Redactor) -> InputRequest:
    """The request for the host. Raises `InputRefused` if it must not be forwarded; the message says why."""
    _check_size(request.params, "the request")
    params = without_secrets(dict(request.params), redactor)
    match request.feature:
        case Feature.ELICITATION:
            return InputRequest(request.method, _form(params, server))
        case Feature.URL:
            return InputRequest(request.method, _address(request.params, params, server))
        case Feature.SAMPLING:
            return InputRequest(request.method, _sampling(params, server))
        case _:
            return InputRequest(request.method, {})


def returned_answer(request: InputRequest, answer: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The host's answer for the upstream; `request` is what was forwarded. Raises `InputRefused` if it is no answer to
    the request."""
    _check_size(answer, "the host's answer")
    taken: dict[str, Any] = without_secrets(dict(answer), redactor)
    match request.feature:
        case Feature.ELICITATION | Feature.URL:
            return _elicited(request, taken)
        case Feature.SAMPLING:
            return _sampled(taken)
        case _:
            return {"roots": roots_of(taken)}


def checked_url(url: object) -> str:
    """An address that a person may be asked to open, its host in ASCII as the browser will ask for it. Raises
    `InputRefused` for any other scheme than https, or http to this machine, or one with credentials, or whose host can
    be taken for another."""
    if not isinstance(url, str) or not url.isprintable() or " " in url or not 0 < len(url) <= _MAX_URL_CHARACTERS:
        raise InputRefused("the address is not a URL of at most 2,000 printable characters")
    try:
        parts = urlsplit(url)
        host, has_user = parts.hostname or "", "@" in parts.netloc or "\\" in url
        _ = parts.port
    except ValueError:
        raise InputRefused("the address is not a valid URL") from None
    if has_user:
        raise InputRefused("the address contains credentials")
    if not host or (parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host))):
        raise InputRefused("only https addresses are offered to the user, and http ones of this machine")
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None:
        raise InputRefused("the host of the address is neither a name nor an IP address")
    named, port = authority.groups()
    plain = named if named.startswith("[") and _ip(host) else _host_in_ascii(named)
    return url if plain == named else parts._replace(netloc=plain + (port or "")).geturl()


def _host_in_ascii(host: str) -> str:
    plain = host
    if not host.isascii():
        import idna

        try:  # strictly: what stands for a dot or a slash is refused, not made one
            plain = idna.encode(host.lower(), strict=True).decode()
        except idna.IDNAError:
            plain = ""
    is_number = _NUMBER.fullmatch(plain.rstrip(".").rpartition(".")[2]) is not None
    if _HOST.fullmatch(plain) is None or (is_number and not _ip(plain)):
        raise InputRefused("the host of the address is neither a name nor an IP address")
    return plain


def roots_of(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    """The folders of an answer to `roots/list`, without what is no file URI."""
    listed = answer.get("roots")
    roots: list[dict[str, str]] = []
    if not isinstance(listed, list):
        return roots
    for root in listed[:MAX_ROOTS]:
        uri, name = _mapping(root).get("uri"), _mapping(root).get("name")
        if isinstance(uri, str) and uri.startswith("file://"):
            roots.append({"uri": uri, **({"name": name} if isinstance(name, str) else {})})
    return roots


def _form(params: Mapping[str, Any], server: str) -> dict[str, Any]:
    schema = _mapping(params.get("requestedSchema"))
    properties = _mapping(schema.get("properties"))
    if not properties and schema.get("type") != "object":
        raise InputRefused("requestedSchema is not the schema of a form")
    if len(properties) > MAX_FIELDS:
        raise InputRefused(f"a form has at most {MAX_FIELDS} fields")
    if any(_mapping(field).get("type") not in _FIELD_TYPES for field in properties.values()):
        raise InputRefused(f"the fields of a form are of type {', '.join(_FIELD_TYPES)}")
    required = schema.get("required")
    names = [name for name in required if name in properties] if isinstance(required, list) else []
    form = {"type": "object", "properties": _on_one_line(properties), **({"required": names} if names else {})}
    warning = _FORM_WARNING if asks_for_secret(params) else ""
    return {"mode": "form", "message": _message(params, server, warning), "requestedSchema": form}


def _address(given: Mapping[str, Any], masked: Mapping[str, Any], server: str) -> dict[str, Any]:
    url = checked_url(given.get("url"))
    if masked.get("url") != given.get("url"):
        raise InputRefused("the address contains a secret of codemode-server's configuration, or hidden characters")
    shown = _message(masked, server, f" The address opens {urlsplit(url).hostname}.")
    return {"mode": "url", "message": shown, "url": url, "elicitationId": str(masked.get("elicitationId", ""))[:200]}


def _sampling(params: Mapping[str, Any], server: str) -> dict[str, Any]:
    if params.get("tools") or params.get("toolChoice"):
        raise InputRefused("sampling with tools is not supported")
    messages, most = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list) or not messages:
        raise InputRefused("messages must be a list of messages")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise InputRefused("maxTokens must be a positive integer")
    who = f"(This request comes from the MCP server {server!r}.)"
    system = params.get("systemPrompt")
    taken: dict[str, Any] = {
        "messages": [_sampling_message(message) for message in messages],
        "systemPrompt": f"{who}\n{system}" if isinstance(system, str) else who,
        "maxTokens": min(most, MAX_TOKENS),
    }
    if isinstance(temperature := params.get("temperature"), int | float):
        taken["temperature"] = temperature
    if isinstance(stops := params.get("stopSequences"), list):
        taken["stopSequences"] = [stop for stop in stops if isinstance(stop, str)]
    if isinstance(preferences := params.get("modelPreferences"), dict):
        taken["modelPreferences"] = preferences
    return taken


def _sampling_message(message: object) -> dict[str, Any]:
    role, content = _mapping(message).get("role"), _mapping(message).get("content")
    blocks = content if isinstance(content, list) else [content]
    if role not in ("user", "assistant") or not blocks:
        raise InputRefused("a message has a role, user or assistant, and content")
    taken = [_content(block) for block in blocks]
    return {"role": role, "content": taken if isinstance(content, list) else taken[0]}


def _content(block: object) -> dict[str, Any]:
    kind = _mapping(block).get("type")
    fields = _CONTENT.get(kind) if isinstance(kind, str) else None
    taken = {name: _mapping(block).get(name) for name in fields or ()}
    if not taken or not all(isinstance(value, str) for value in taken.values()):
        raise InputRefused("content is text, an image or sound")
    return {"type": kind, **taken}


def _elicited(request: InputRequest, answer: Mapping[str, Any]) -> dict[str, Any]:
    action, content = answer.get("action"), answer.get("content")
    if action not in ("accept", "decline", "cancel"):
        raise InputRefused("the host's answer has no action")
    if action != "accept" or request.feature is Feature.URL:
        return {"action": action}
    asked = _mapping(_mapping(request.params["requestedSchema"]).get("properties"))
    return {"action": action, "content": {name: value for name, value in _mapping(content).items() if name in asked}}


def _sampled(answer: Mapping[str, Any]) -> dict[str, Any]:
    role, model, stop = (answer.get(name) for name in ("role", "model", "stopReason"))
    taken: dict[str, Any] = {
        "role": role if role in ("user", "assistant") else "assistant",
        "content": _content(answer.get("content")),
        "model": model if isinstance(model, str) else "unknown",
    }
    return {**taken, "stopReason": stop} if isinstance(stop, str) else taken


def _message(params: Mapping[str, Any], server: str, remark: str) -> str:
    """The server's text, of which no line can be taken for one of ours, and our remark."""
    message = params.get("message")
    text = message if isinstance(message, str) else ""
    text = text if len(text) <= MAX_MESSAGE_CHARACTERS else text[:MAX_MESSAGE_CHARACTERS] + "…"
    # Many spaces or empty lines would begin another line on the screen.
    text = _EMPTY_LINES.sub("\n\n", _WIDE.sub(" ", text.strip()))
    quoted = text.replace("\n", "\n> ")
    return f"The MCP server {server!r} asks: {quoted}\n\n(codemode-server: so far the MCP server {server!r}.{remark})"


def _on_one_line(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_one_line(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        name: " ".join(part.split()) if name in _SHOWN and isinstance(part, str) else _on_one_line(part)
        for name, part in value.items()
    }


def without_secrets(value: Any, redactor: Redactor) -> Any:
    """The value with secrets masked, and without control characters in its texts."""
    return redactor.value(with_texts_mapped(redactor.value(value), clean))


def _check_size(value: Mapping[str, Any], what: str) -> None:
    try:
        size = len(json.dumps(value, default=str))
    except (ValueError, RecursionError):
        raise InputRefused(f"{what} is no JSON") from None
    if size > MAX_REQUEST_BYTES:
        raise InputRefused(f"{what} is longer than {MAX_REQUEST_BYTES // 1024} KiB")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _ip(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def asks_for_secret(params: Mapping[str, Any]) -> bool:
    """True if a form seems to ask for a secret, by its message and the names and texts of its fields."""
    return any(_SECRET_WORDS.search(_as_read(text)) for text in _texts(params))


def _texts(params: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a form; without the labels of fields that only take yes or no."""
    yield str(params.get("message") or "")
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    for name, field in properties.items():
        if not isinstance(field, dict) or field.get("type") != "boolean":
            yield from (name, *texts_in(field))
        else:
            yield from texts_in({key: text for key, text in field.items() if key != "title"})


def _as_read(text: str) -> str:
    """In lowercase letters without accents, with one space between words."""
    letters = "".join(it for it in unicodedata.normalize("NFKD", clean(text)) if not unicodedata.combining(it))
    return _BETWEEN_WORDS.sub(" ", letters).casefold().strip()
