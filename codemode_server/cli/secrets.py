"""The `secrets` command: stores, lists and removes what `${keyring:NAME}` in `upstream.yaml` stands for. It never shows
a value, and never takes one as an argument, which other users of the machine and the shell's history would see."""

from __future__ import annotations

import argparse
import sys

from codemode_server.cli.terminal import configuration, show, table
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError, SecretUnavailable
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.secrets.keyring_store import open_store
from codemode_server.secrets.references import Reference
from codemode_server.secrets.store import (
    MAX_VALUE_BYTES,
    SIGN_IN,
    is_reference_name,
    notify,
    remedy,
)
from codemode_server.startup.stores import state_folder
from codemode_server.support.text import escaped

_VALUES = "a value is never an argument: other users of this machine, and the shell's history, would show it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="print their names, and which servers use them; the default")
    store = actions.add_parser("set", help="store one: asks for the value, or reads it from stdin")
    remove = actions.add_parser("remove", help="remove one")
    for action in (store, remove):
        action.add_argument("name", metavar="NAME")
    store.add_argument("values", nargs="*", default=[], help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, resolve=False)
    store = open_store(state_folder(loaded.settings))
    if parsed.action == "set":
        if parsed.values:
            raise CodemodeError(f"{_VALUES}; run `codemode-server secrets set NAME` and enter it then")
        show(store_value(store, parsed.name, loaded))
        return 0
    if parsed.action == "remove":
        show(remove(store, parsed.name, loaded))
        return 0
    page, is_complete = listing(store, loaded)
    show(page)
    return 0 if is_complete else 1


def store_value(store: EncryptedFileStore, name: str, loaded: LoadedSettings) -> str:
    if not is_reference_name(name):
        raise CodemodeError(
            "a name has letters, digits, `_`, `-` and `.`, at most 100 of them"
            + (f"; {_VALUES}" if "=" in name else "")
        )
    store.set(name, _entered(name))
    _tell_products()
    users = _users(name, loaded)
    use = f"used by: {users}" if users else f"to use it, write ${{keyring:{name}}} in {loaded.path or 'upstream.yaml'}"
    return f"stored {name} in {store.where(name)}\n{use}"


def remove(store: EncryptedFileStore, name: str, loaded: LoadedSettings) -> str:
    if name.startswith(SIGN_IN):
        raise CodemodeError(f"that is a sign-in; run: codemode-server logout {escaped(name.rpartition('/')[2])}")
    if not store.remove(name):
        raise CodemodeError(
            f"there is no secret {escaped(name)!r}; `codemode-server secrets list` shows which there are"
        )
    _tell_products()
    users = _users(name, loaded)
    return f"removed {name}" + (f"; still used by: {users}" if users else "")


def listing(store: EncryptedFileStore, loaded: LoadedSettings) -> tuple[str, bool]:
    """A line for each secret, command and variable of `.env`; and whether every secret that is used is there."""
    names = {*store.names(), *(it.text for it in loaded.references if it.kind == "keyring")}
    rows, is_complete = [("name", "used by", "stored in")], True
    for name in sorted(names):
        where, is_stored = _state(store, name)
        users = "a sign-in" if name.startswith(SIGN_IN) else _users(name, loaded) or "-"
        is_complete = is_complete and (is_stored or users == "-")
        rows.append((name, users, where))
    commands = [
        f"  {it.text}\n    used by: {_joined(servers)}"
        for it, servers in loaded.references.items()
        if it.kind == "command"
    ]
    lines = table(rows) if names else [f"no secrets are stored{' outside of .env' if loaded.dotenv else ''}"]
    if commands:
        lines += ["", "commands that are run for secrets:", *sorted(commands)]
    if loaded.dotenv:
        lines += ["", f"variables in {loaded.base_dir / '.env'}:", *(f"  {name}" for name in sorted(loaded.dotenv))]
    lines += ["", f"new ones are stored in {store.description}"]
    return "\n".join(escaped(line) for text in lines for line in text.split("\n")), is_complete


def _state(store: EncryptedFileStore, name: str) -> tuple[str, bool]:
    """Where a secret is, or why it can't be used, and whether it can."""
    try:
        if store.get(name) is None:
            return f"not stored; run: {remedy(name)}", False
    except SecretUnavailable as error:
        return str(error), False
    return store.where(name), True


def _users(name: str, loaded: LoadedSettings) -> str:
    return _joined(loaded.references.get(Reference("keyring", name), ()))


def _joined(servers: frozenset[str] | tuple[()]) -> str:
    return ", ".join(sorted(server or "settings outside of servers" for server in servers))


def _entered(name: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        value = getpass(f"value of {name} (it is not shown): ")
    else:
        data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 2)
        try:
            value = data.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise CodemodeError("the value on stdin is not UTF-8") from None
    if not value.strip():
        raise CodemodeError("nothing was entered, so nothing has changed")
    return value


def _tell_products() -> None:
    try:
        notify()
    except (OSError, CodemodeError) as error:
        raise CodemodeError(f"that is done, but running products do not notice it until a restart: {error}") from None
