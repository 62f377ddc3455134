"""The forms that change what the configuration says of a server: its entry, the effects of its tools, and rules.

A value with a secret is shown masked, and stays as it is unless the person writes another one.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.calls.policy.effect_proposals import proposed_readers
from codemode_server.calls.policy.rules import PermissionRules
from codemode_server.calls.policy.settings import Answer
from codemode_server.config.host_reading import FoundServer
from codemode_server.config.import_plan import settings_of, without_literal_secrets
from codemode_server.config.loading import load_place
from codemode_server.config.saving import EditedFile
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.config_edits import ConfigEdits, EditExtras
from codemode_server.features.pages.server_forms import ServerForms, lines_of
from codemode_server.features.pages.site import Site
from codemode_server.records.executions import Records
from codemode_server.records.known_tools import KnownTools
from codemode_server.records.server_edits import SecretDestination, pairs, variables_left
from codemode_server.support.redaction import MASK
from codemode_server.support.text import legible

_ANSWERS: tuple[Answer, ...] = ("allow", "ask", "deny")
_GLOB = re.compile(r"[*?\[\]/]")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


class EditForms:
    def __init__(self, site: Site, records: Records, forms: ServerForms, edits: ConfigEdits) -> None:
        self._site = site
        self._records = records
        self._forms = forms
        self._edits = edits
        site.get("servers/{key}/edit", self._form)
        site.post("servers/{key}/edit", self._edit)
        site.post("servers/{key}/remove", self._remove)
        site.post("servers/{key}/effects", self._accept_effects)
        site.post("servers/{key}/rule", self._rule)
        site.post("servers/{key}/rule/{tool_key}", self._rule)

    async def _form(self, request: Request, given: Mapping[str, str] | None = None, problem: str = "") -> Response:
        def read() -> tuple[str, bool, dict[str, str]]:
            name = self._forms.name_of(request.path_params["key"])
            entry = _entry(EditedFile(self._edits.place), name)
            return name, "url" in entry, _shown(entry, self._edits.mask())

        name, is_address, shown = await anyio.to_thread.run_sync(read)
        return await self._site.page(
            "edit",
            "servers",
            request,
            status=400 if problem else 200,
            name=name,
            key=request.path_params["key"],
            is_address=is_address,
            given=shown if given is None else {it: given.get(it, "") for it in shown},
            problem=problem,
            folder=str(self._edits.place.path.parent),
        )

    async def _edit(self, request: Request, form: Mapping[str, str]) -> Response:
        name = await anyio.to_thread.run_sync(self._forms.name_of, request.path_params["key"])

        def edit(file: EditedFile, storage: SecretDestination) -> EditExtras:
            entry = _entry(file, name)
            changed = _changed(entry, form, self._edits.mask())
            names = storage.new()
            changed |= without_literal_secrets(name, {key: it for key, it in changed.items() if it}, names)
            variables = {**storage.variables, **names.added}
            whole = {key: it for key, it in {**entry, **changed}.items() if it is not None}
            is_complete = all(it in variables for it in FoundServer(name, whole, "", "", "user").variables())
            _, problem = settings_of(name, whole, variables, file.folder)
            if problem and is_complete:
                raise CodemodeError(problem)
            for key, value in changed.items():
                file.text.set_member(name, key, value)
            return EditExtras(names.added)

        try:
            return await self._edits.propose(f"Change {name}", edit, f"servers/{request.path_params['key']}")
        except CodemodeError as error:
            return await self._form(request, form, str(error))

    async def _remove(self, request: Request, _: Mapping[str, str]) -> Response:
        name = await anyio.to_thread.run_sync(self._forms.name_of, request.path_params["key"])

        def edit(file: EditedFile, _: SecretDestination) -> EditExtras:
            before = file.text.servers()
            file.text.remove_server(name)
            stay = variables_left(file, before)
            note = f"{file.dotenv} still has {', '.join(stay)}; delete what nothing else needs." if stay else ""
            return EditExtras({}, note)

        return await self._edits.propose(f"Remove {name}", edit, "servers", is_removal=True)

    async def _accept_effects(self, request: Request, _: Mapping[str, str]) -> Response:
        """Say in the configuration that the tools which seem to only read do so."""
        name = await anyio.to_thread.run_sync(self._forms.name_of, request.path_params["key"])

        def edit(file: EditedFile, _: SecretDestination) -> None:
            with KnownTools.of(self._records.present()) as known:
                tools = proposed_readers(known.loaded.settings.permissions, known.catalog).get(name, ())
            file.text.set_effects(name, dict.fromkeys([it.raw_name for it in tools], "read"))

        return await self._edits.propose(f"Effects of {name}", edit, f"servers/{request.path_params['key']}")

    async def _rule(self, request: Request, form: Mapping[str, str]) -> Response:
        """A rule for one tool, or for all tools of a server that only read; in place of a former one for just these."""
        key, tool_key = request.path_params["key"], request.path_params.get("tool_key")
        answer = next((it for it in _ANSWERS if it == form.get("answer")), None)
        if answer is None:
            return self._site.message(400, "Not understood", "Go back, and choose what the rule does.")
        server, tool = await anyio.to_thread.run_sync(self._forms.names_of, key, tool_key)
        if _GLOB.search(server) or (tool is not None and _GLOB.search(tool)):
            raise CodemodeError("the name has characters of a pattern; write the rule by hand")
        pattern = server if tool is None else f"{server}/{tool}"
        more: dict[str, Plain] = {"effect": "read"} if tool is None else {}

        def edit(file: EditedFile, _: SecretDestination) -> None:
            permissions = load_place(file.place, require_trust=False, resolve=False).settings.permissions
            written = file.text.rules() or []
            former = [n for n, it in enumerate(written) if it in [{one: pattern, **more} for one in _ANSWERS]]
            for number in reversed(former):
                file.text.remove_rule(number)
            others = tuple(it for number, it in enumerate(permissions.rules) if number not in former)
            rules = PermissionRules(permissions.model_copy(update={"rules": others}))
            file.text.insert_rule(rules.place_for(answer, pattern), {answer: pattern, **more})

        back = f"servers/{key}" if tool is None else f"tools/{key}/{tool_key}"
        return await self._edits.propose(f"A rule for {pattern}", edit, back)


def _entry(file: EditedFile, name: str) -> Mapping[str, Any]:
    """The entry as the file has it. Raises `CodemodeError` if it can't be shown in a form."""
    written = file.text.servers().get(name)
    entry: dict[str, Any] = written if isinstance(written, dict) else {}
    first = [it for key in ("command", "url") if isinstance(it := entry.get(key), str)]
    args, mappings = entry.get("args") or [], [entry.get(key) or {} for key in ("env", "headers")]
    if len(first) != 1 or not isinstance(args, list) or not all(isinstance(it, dict) for it in mappings):
        raise CodemodeError(f"the entry of {name} has another form than these pages edit; edit {file.path} by hand")
    values = [*first, *args, *(value for it in mappings for value in it.values())]
    if any(legible(str(it)) != str(it) for it in values):
        raise CodemodeError(f"the entry of {name} has characters that a form does not keep; edit {file.path} by hand")
    return entry


def _words(entry: Mapping[str, Any]) -> list[str]:
    return [entry.get("command") or entry["url"], *map(str, entry.get("args") or ())]


def _shown(entry: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, str]:
    def joined(key: str, separator: str) -> str:
        return "\n".join(f"{name}{separator}{mask(str(value))}" for name, value in (entry.get(key) or {}).items())

    words = [mask(it) for it in _words(entry)]
    return {
        "line": words[0] if "url" in entry else shlex.join(words),
        "env": joined("env", "="),
        "headers": joined("headers", ": "),
        "cwd": str(entry.get("cwd") or ""),
    }


def _changed(entry: Mapping[str, Any], form: Mapping[str, str], mask: Callable[[str], str]) -> dict[str, Plain]:
    """The members of the entry that differ, with their new values; None for one that goes. Raises `CodemodeError`."""
    is_address, words = "url" in entry, [form.get("line", "").strip()]
    if not is_address:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise CodemodeError(f"the command can't be split into words: {error}") from None
        if not words or _ADDRESS.match(words[0]):
            raise CodemodeError("give the command that starts the server")
    first, *args = _unmasked(words, _words(entry), mask)
    new: dict[str, Any] = {"url" if is_address else "command": first, "args": args, "cwd": form.get("cwd", "").strip()}
    for key, separator, text in (("env", "=", "NAME=value"), ("headers", ":", "Name: value")):
        given, there = pairs(lines_of(form.get(key, "")), separator, text), entry.get(key) or {}
        values = (
            _unmasked([value], [str(there[name])] if name in there else [], mask)[0] for name, value in given.items()
        )
        new[key] = dict(zip(given, values, strict=True))
    return {key: value or None for key, value in new.items() if (value or None) != (_plain(entry.get(key)) or None)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: str(it) for name, it in value.items()}
    return [*map(str, value)] if isinstance(value, list) else value


def _unmasked(given: Sequence[str], there: Sequence[str], mask: Callable[[str], str]) -> list[str]:
    """What a person wrote, with the values behind masks that were left as they were. Raises `CodemodeError` if it is
    not certain which value a mask stands for."""
    values: dict[str, list[str]] = {}
    for it in there:
        values.setdefault(mask(it), []).append(it)
    counts = Counter(given)
    for masked, behind in values.items():
        if masked in counts and len({*behind}) > 1 and counts[masked] != len(behind):
            raise CodemodeError(f"{masked} stands for several values, of which one is gone; edit the file by hand")
    found = [values[it].pop(0) if len(values.get(it, ())) > 1 else values.get(it, [it])[0] for it in given]
    if any(MASK in new and new not in there for new in found):
        raise CodemodeError(f"{MASK} stands for a secret: leave the value as it is, or write the whole of it")
    return found
