"""Finds the guardrails that the configuration names, imports them, and checks their settings.

Guardrails are code that runs in this process with all its rights. They are named in a configuration that is in force (a
file in the current folder only once the person trusts it), and imported from what is installed: never from the current
folder, where an untrusted repository may lie, although Python would look there first if it is started with `-m`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.features.guardrails.asking import AskedGuardrail
from codemode_server.features.guardrails.chain import GuardrailChain
from codemode_server.features.guardrails.guardrail import Guardrail
from codemode_server.features.guardrails.settings import GuardrailSettings, guardrails_of
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.sandbox.registry import Check

BUILT_IN = {
    "secrets": "codemode_server.features.guardrails.builtin.secrets:SecretsGuardrail",
    "size": "codemode_server.features.guardrails.builtin.size:SizeGuardrail",
    "domains": "codemode_server.features.guardrails.builtin.domains:DomainsGuardrail",
    "personal_data": "codemode_server.features.guardrails.builtin.personal_data:PersonalDataGuardrail",
}


def guardrail_chain(config: LiveConfig) -> GuardrailChain:
    """The guardrails of a product, as its configuration names them at the start; raises as `load_guardrails`."""

    def masked(text: str, principal: str) -> str:
        return config.redactor_of(Principal(PrincipalId(principal))).text(text)

    return GuardrailChain(load_guardrails(guardrails_of(config.settings)), masked)


def diagnosis(settings: Settings) -> Check:
    """For `doctor`: loads those that are used, as at the start of the product."""
    try:
        used = ", ".join(it.name for it in load_guardrails(guardrails_of(settings))) or "none"
    except SettingsError as error:
        return Check("guardrails", "missing", str(error).replace("\n", "; "), "edit upstream.yaml, or install it")
    return Check("guardrails", "ok", f"used, in this order: {used}")


def load_guardrails(settings: Sequence[GuardrailSettings]) -> list[AskedGuardrail]:
    """The guardrails of the configuration, in its order. Raises `SettingsError` if one can't be loaded; no program may
    run without it."""
    return [_loaded(f"guardrails[{index}]", one) for index, one in enumerate(settings)]


def _loaded(where: str, one: GuardrailSettings) -> AskedGuardrail:
    kind = _imported(where, one.use)
    try:
        settings = kind.Settings.model_validate(one.settings)
    except ValidationError as error:
        lines = [f"{where}.settings.{_problem(it, kind)}" for it in error.errors(include_url=False)]
        raise SettingsError("\n".join(lines)) from None
    try:
        guardrail = kind(settings)
    except Exception as error:
        raise SettingsError(f"{where} (use: {one.use}) can't be made: {type(error).__name__}: {error}") from error
    return AskedGuardrail(one.use.rpartition(":")[2], guardrail, one.timeout, one.tools)


def _imported(where: str, use: str) -> type[Guardrail]:
    place = use if ":" in use else BUILT_IN.get(use, "")
    if not place:
        meant = similar_name(use, list(BUILT_IN))
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(BUILT_IN)}, or `package.module:Class`"
        raise SettingsError(f"{where}.use: there is no guardrail {use!r}; {hint}")
    module_name, _, attribute = place.partition(":")
    try:
        with _without_current_folder():
            found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:
        raise SettingsError(
            f"{where}.use: {use!r} can't be imported ({type(error).__name__}: {error}); install its package into the "
            "environment of codemode-server"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Guardrail)):
        raise SettingsError(
            f"{where}.use: {use!r} is no class derived from codemode_server.features.guardrails.Guardrail"
        )
    return found


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """The current folder is no place to import from."""
    here = os.path.realpath(os.curdir)
    before = list(sys.path)
    sys.path[:] = [path for path in before if path and os.path.realpath(path) != here]
    try:
        yield
    finally:
        sys.path[:] = before


def _problem(detail: ErrorDetails, kind: type[Guardrail]) -> str:
    """Without the value, which may be a secret."""
    place = ".".join(map(str, detail["loc"])) or "settings"
    if detail["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in kind.Settings.model_fields.items()]
        meant = similar_name(str(detail["loc"][-1]), known) if len(detail["loc"]) == 1 else None
        hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(known)}" if known else ""
        return f"{place}: unknown key{hint if len(detail['loc']) == 1 else ''}"
    return f"{place}: {detail['msg']}"
