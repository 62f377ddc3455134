"""Resolves references to secrets: `keyring:NAME` and `command:LINE`, each once for a loaded configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.commands import output_of, words_of
from codemode_server.secrets.store import is_reference_name, remedy

_COMMANDS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    kind: Literal["keyring", "command"]
    text: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.text}"


class Unresolved:
    """Leaves every reference as it is written, and collects them."""

    def __init__(self) -> None:
        self.found: set[Reference] = set()

    def value(self, reference: Reference) -> str | None:
        self.found.add(reference)
        return None


class Resolver:
    """Resolves the references of one configuration. Blocks, and starts processes: not for the event loop."""

    def __init__(
        self,
        state_folder: Path,
        base_dir: Path,
        environ: Mapping[str, str],
        *,
        may_read: bool,
        may_run: bool,
        set_arguments: str = "",
    ) -> None:
        """`may_read`: secrets of the keyring; `may_run`: commands. What may not be resolved stays as it is written.
        `set_arguments` are what `secrets set` needs beside the name to write to this state folder."""
        self._state_folder = state_folder
        self._base_dir = base_dir
        self._environ = environ
        self._may_read = may_read
        self._may_run = may_run
        self._set_arguments = set_arguments
        self._known: dict[Reference, str | SecretUnavailable] = {}

    def prepare(self, references: Iterable[Reference]) -> None:
        """Resolve these, commands at the same time: each may take seconds."""
        new = sorted(set(references) - self._known.keys())
        names = [reference for reference in new if reference.kind == "keyring" and self._may_read]
        commands = [reference for reference in new if reference.kind == "command" and self._may_run]
        if names:
            self._read(names)
        if commands:
            with ThreadPoolExecutor(_COMMANDS_AT_ONCE, thread_name_prefix="secret") as threads:
                self._known.update(zip(commands, threads.map(self._run, commands), strict=True))

    def value(self, reference: Reference) -> str | None:
        """The value that a reference stands for; None if it stays as it is written. Raises `SecretUnavailable`: there
        is none, or it can't be read; the message names the remedy."""
        if not (self._may_read if reference.kind == "keyring" else self._may_run):
            return None
        self.prepare([reference])
        value = self._known[reference]
        if isinstance(value, SecretUnavailable):
            raise value
        return value

    def _read(self, references: Iterable[Reference]) -> None:
        from codemode_server.secrets.keyring_store import open_store

        store = open_store(self._state_folder)
        for reference in references:
            try:
                value = store.get(reference.text)
            except SecretUnavailable as error:
                self._known[reference] = error
                continue
            missing = f"the secret {reference.text!r} is not stored; run: {remedy(reference.text)}{self._set_arguments}"
            self._known[reference] = SecretUnavailable(missing) if value is None else value

    def _run(self, reference: Reference) -> str | SecretUnavailable:
        try:
            return output_of(reference.text, env=self._environ, cwd=self._base_dir)
        except SecretUnavailable as error:
            return SecretUnavailable(f"{error}; mend that, then save the configuration file again")


References = Resolver | Unresolved


def check(reference: Reference) -> None:
    """Raises `SecretUnavailable` for a reference that can never be resolved."""
    if reference.kind == "command":
        if "${" in reference.text:
            raise SecretUnavailable("a `${command:…}` holds another `${…}`, which is not expanded there")
        words_of(reference.text)
    elif not is_reference_name(reference.text):
        raise SecretUnavailable(
            "the name in a `${keyring:…}` has to be of letters, digits, `_`, `-` and `.`, at most 100 of them"
        )
