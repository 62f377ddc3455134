"""Edits the text of `upstream.yaml`: its servers, and the permission rules that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codemode_server.config import file_edits
from codemode_server.config.file_edits import NotEditable, Syntax
from codemode_server.config.named_servers import spellings_of
from codemode_server.config.problems import no_server, printable
from codemode_server.config.yaml_edits import Plain

SECTIONS = ("servers", "mcpServers")
_RULES = ("permissions", "rules")


class ConfigText:
    """The text of one configuration file in our form, with its edits so far."""

    def __init__(self, text: str, *, is_json: bool = False) -> None:
        self.text = text
        self._syntax: Syntax = "json" if is_json else "yaml"

    def servers(self) -> dict[str, Any]:
        """The entries as written, by name."""
        tree = self._data()
        sections = (tree.get(section) for section in SECTIONS)
        return {name: entry for section in sections if isinstance(section, dict) for name, entry in section.items()}

    def rules(self) -> Any:
        """The permission rules as written."""
        return file_edits.find(self._data(), _RULES)

    def protected(self) -> frozenset[str]:
        """The names and globs in `privacy.servers`."""
        servers = file_edits.find(self._data(), ("privacy", "servers"))
        return frozenset(servers) if isinstance(servers, dict) else frozenset()

    def add_servers(self, entries: Mapping[str, Mapping[str, Plain]]) -> None:
        """Append servers whose names are not taken."""
        if entries:
            self.text = file_edits.with_members(self.text, self._syntax, ("servers",), entries)

    def insert_rule(self, index: int | None, rule: Mapping[str, Plain]) -> None:
        """Put a permission rule before the one at `index`, or behind all of them if there are not more."""
        self.text = file_edits.with_item(self.text, self._syntax, _RULES, dict(rule), index)

    def remove_server(self, name: str) -> list[str]:
        """Remove a server, and the names from `privacy.servers` that no server has then, since none may be. Returns
        these names."""
        path, spellings = self._path(name), spellings_of(self.servers())
        self.text = file_edits.without_member(self.text, self._syntax, path)
        gone = sorted(self.protected() & (spellings - spellings_of(self.servers())))
        for protected in gone:
            self.text = file_edits.without_member(self.text, self._syntax, ("privacy", "servers", protected))
        return gone

    def set_enabled(self, name: str, *, is_enabled: bool) -> None:
        path = self._path(name)
        entry = file_edits.find(self._data(), path)
        written = {key: entry[key] for key in ("enabled", "disabled") if isinstance(entry, dict) and key in entry}
        members = {key: is_enabled == (key == "enabled") for key in written or ("enabled",)}
        try:
            self.text = file_edits.with_members(self.text, self._syntax, path, members)
        except NotEditable as error:
            raise NotEditable(f"can't {'enable' if is_enabled else 'disable'} {printable(name)}: {error}") from None

    def _path(self, name: str) -> tuple[str, str]:
        tree = self._data()
        for section in SECTIONS:
            if isinstance(tree.get(section), dict) and name in tree[section]:
                return section, name
        raise no_server(name, self.servers(), "this file")

    def _data(self) -> dict[str, Any]:
        return file_edits.read(self.text, self._syntax)
