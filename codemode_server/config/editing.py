"""Edits the text of a configuration file: only the lines of the edited value change.

Each edit is checked: the new text must be read as the old one with this change and nothing else. ruamel's round trip is
not used, since it indents lists and wraps lines anew where nothing was edited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from codemode_server.config.document import Node, parse, plain_json
from codemode_server.config.named_servers import spellings_of
from codemode_server.config.problems import Problems, no_server, printable
from codemode_server.config.yaml_layout import Piece, layout
from codemode_server.config.yaml_writing import Plain, block, flow, item, scalar
from codemode_server.domain.errors import CodemodeError

SECTIONS = ("servers", "mcpServers")


class ConfigNotEditable(CodemodeError):
    """Raised when the text has a form that is not edited; the message says what to do by hand."""

    code = "not_editable"


class ConfigText:
    """The text of one configuration file in our form, with its edits so far."""

    def __init__(self, text: str, *, is_json: bool = False) -> None:
        self._bom = "\ufeff" if text.startswith("\ufeff") else ""
        self._text = text.removeprefix("\ufeff")
        self._is_json = is_json
        self._end_of_line = "\r\n" if "\r\n" in text else "\n"

    @property
    def text(self) -> str:
        return self._bom + self._text

    def servers(self) -> dict[str, Any]:
        """The entries as written, by name."""
        tree = self._values(self._text)
        sections = (tree.get(section) for section in SECTIONS)
        return {name: entry for section in sections if isinstance(section, dict) for name, entry in section.items()}

    def rules(self) -> Any:
        """The permission rules as written."""
        permissions = self._values(self._text).get("permissions")
        return permissions.get("rules") if isinstance(permissions, dict) else None

    def add_server(self, name: str, entry: Mapping[str, Plain]) -> None:
        """Append a server whose name is not taken."""
        self.add_servers({name: entry})

    def add_servers(self, entries: Mapping[str, Mapping[str, Plain]]) -> None:
        """Append servers whose names are not taken."""
        if not entries:
            return
        section = "mcpServers" if self._is_json and "servers" not in self._values(self._text) else "servers"
        expected = self._values(self._text)
        expected[section] = {**(expected.get(section) or {}), **_copied(entries)}
        self._change(self._with_members((section,), entries), expected, f"add {', '.join(entries)}")

    def add_rules(self, rules: Sequence[Mapping[str, Plain]]) -> None:
        """Append permission rules, so that they don't weaken those before them."""
        expected = self._values(self._text)
        permissions = dict(expected.get("permissions") or {})
        permissions["rules"] = [*(permissions.get("rules") or []), *map(_copied, rules)]
        expected["permissions"] = permissions
        self._change(self._with_items(("permissions", "rules"), rules), expected, "add permission rules")

    def insert_rule(self, index: int, rule: Mapping[str, Plain]) -> None:
        """Put a permission rule before the one at `index`, or behind all of them if there are not more."""
        expected = self._values(self._text)
        written = self.rules() or []
        if index >= len(written):
            self.add_rules([rule])
            return
        expected["permissions"] = {
            **expected["permissions"],
            "rules": [*written[:index], _copied(rule), *written[index:]],
        }
        here: Piece | None = self._layout()
        for name in ("permissions", "rules"):
            here = here.member(name) if here is not None else None
        if here is None or here.is_alias or not here.items:
            raise ConfigNotEditable("`permissions.rules` is not written out as a list; edit it by hand")
        at = here.items[index].start
        if here.is_flow:
            text = f"{self._text[:at]}{flow(rule, is_json=self._is_json)}, {self._text[at:]}"
        else:
            at = self._text.rindex("-", 0, at)
            at = self._text.rfind("\n", 0, at) + 1
            text = self._text[:at] + self._lines(item(rule, here.column)) + self._text[at:]
        self._change(text, expected, "add a permission rule")

    def remove_server(self, name: str) -> list[str]:
        """Remove a server, and the names from `privacy.servers` that are nobody's then, since none may be. Returns
        these names."""
        section = self._section(name)
        spellings = spellings_of(self.servers())
        expected = self._values(self._text)
        expected[section] = {key: entry for key, entry in expected[section].items() if key != name} or None
        servers = self._layout().member(section)
        assert servers is not None  # noqa: S101 - `_section` found it
        self._change(self._without_member(servers, name), expected, f"remove {name}")
        gone = sorted(self.protected() & (spellings - spellings_of(self.servers())))
        for protected in gone:
            self._remove_protection(protected)
        return gone

    def protected(self) -> frozenset[str]:
        """The names and globs in `privacy.servers`."""
        privacy = self._values(self._text).get("privacy")
        servers = privacy.get("servers") if isinstance(privacy, dict) else None
        return frozenset(servers) if isinstance(servers, dict) else frozenset()

    def _remove_protection(self, name: str) -> None:
        expected = self._values(self._text)
        left = {glob: mode for glob, mode in expected["privacy"]["servers"].items() if glob != name}
        privacy = self._layout().member("privacy")
        servers = privacy.member("servers") if privacy is not None else None
        if servers is None or servers.is_alias or not servers.members:
            raise ConfigNotEditable("`privacy.servers` is not written out as `key: value` lines; edit it by hand")
        expected["privacy"] = {**expected["privacy"], "servers": left or ({} if servers.is_flow else None)}
        self._change(self._without_member(servers, name), expected, f"remove {name} from `privacy.servers`")

    def set_enabled(self, name: str, *, is_enabled: bool) -> None:
        section = self._section(name)
        expected = self._values(self._text)
        entry = expected[section][name] = dict(expected[section][name] or {})
        servers = self._layout().member(section)
        written = servers.member(name) if servers is not None else None
        if written is None or written.is_alias or written.members is None:
            raise ConfigNotEditable(f"{printable(name)} is not written out as `key: value` lines; edit it by hand")
        disabled, enabled = written.member("disabled"), written.member("enabled")
        text = self._text
        for key, piece, value in (("disabled", disabled, not is_enabled), ("enabled", enabled, is_enabled)):
            if piece is not None and isinstance(entry.get(key), bool):
                entry[key] = value
        if enabled is None and disabled is None:
            entry["enabled"] = is_enabled
            text = self._with_first_member(written, "enabled", is_enabled)
        else:
            both = [(disabled, not is_enabled), (enabled, is_enabled)]
            there = [(piece, value) for piece, value in both if piece is not None]
            for piece, value in sorted(there, key=lambda it: -it[0].start):
                text = text[: piece.start] + ("true" if value else "false") + text[piece.end :]
        self._change(text, expected, f"{'enable' if is_enabled else 'disable'} {name}")

    def _section(self, name: str) -> str:
        tree = self._values(self._text)
        for section in SECTIONS:
            if isinstance(tree.get(section), dict) and name in tree[section]:
                return section
        raise no_server(name, self.servers(), "this file")

    def _change(self, text: str, expected: Mapping[str, Any], what: str) -> None:
        """Take the new text if it says what it should."""
        try:
            found = self._values(text)
        except CodemodeError:
            found = None
        if found is None or _without_empty(found) != _without_empty(dict(expected)):
            raise ConfigNotEditable(
                f"can't {printable(what)} without changing something else, for instance since other entries refer to "
                "it; edit the file by hand"
            )
        self._text = text

    def _values(self, text: str) -> dict[str, Any]:
        problems = Problems("the file")
        tree = parse(text, problems, is_json=self._is_json)
        if problems.found:
            raise problems.error()
        values = _values(tree)
        assert isinstance(values, dict)  # noqa: S101 - `parse` accepts nothing else
        return values

    def _layout(self) -> Piece:
        text = plain_json(self._text) if self._is_json else self._text
        if len(text) != len(self._text):
            raise ConfigNotEditable("the file has characters that are written as pairs of escapes; edit it by hand")
        return layout(text) or Piece(len(self._text), len(self._text), 0)

    def _with_members(self, path: tuple[str, ...], members: Mapping[str, Plain]) -> str:
        """The text with members appended to the mapping at `path`, which is made if it is not there."""
        here = self._layout()
        for depth, name in enumerate(path):
            inner = here.member(name)
            is_empty = inner is not None and not inner.members and not inner.is_alias
            if inner is None or (is_empty and (inner.is_empty or inner.is_flow or inner.text in _NULLS)):
                for missing in reversed(path[depth + 1 :]):
                    members = {missing: members}
                if inner is None:
                    return self._appended(here, {name: members}, is_root=depth == 0)
                return self._filled(here, inner, members)
            here = inner
        return self._appended(here, members)

    def _with_items(self, path: tuple[str, ...], items: Sequence[Plain]) -> str:
        """The text with items appended to the list at `path`, which is made if it is not there."""
        here: Piece | None = self._layout()
        for name in path:
            here = here.member(name) if here is not None else None
        if here is None or not here.items:
            if here is not None:
                raise ConfigNotEditable(
                    "`permissions.rules` is there and empty; remove the key, or add the rules by hand"
                )
            *parents, last = path
            return self._with_members(tuple(parents), {last: list(items)})
        if here.is_flow:
            at = here.items[-1].end
            added = "".join(f", {flow(it, is_json=self._is_json)}" for it in items)
            return self._text[:at] + added + self._text[at:]
        return self._with_lines(here.end, "".join(item(it, here.column) for it in items))

    def _appended(self, mapping: Piece, members: Mapping[str, Plain], *, is_root: bool = False) -> str:
        before = mapping.members[-1] if mapping.members else None
        if mapping.is_flow:
            at = before[1].end if before else mapping.start + 1
            lead = self._line_lead(before[0].start) if before else " "
            written = [f"{lead}{flow({key: value}, is_json=self._is_json)[1:-1]}" for key, value in members.items()]
            return self._text[:at] + ("," if before else "") + ",".join(written) + self._text[at:]
        indent = mapping.column if before else 0
        lines = "".join(block(key, value, indent) for key, value in members.items())
        return self._with_lines(len(self._text.rstrip()) if is_root else mapping.end, lines, has_gap=is_root)

    def _filled(self, parent: Piece, piece: Piece, value: Mapping[str, Plain]) -> str:
        """The text with a value in place of an empty one."""
        if parent.is_flow:
            return self._text[: piece.start] + flow(value, is_json=self._is_json) + self._text[piece.end :]
        before = self._text[: piece.start].rstrip(" ") + self._text[piece.end :]
        indent = parent.column + 2
        lines = "".join(block(key, inner, indent) for key, inner in value.items())
        return self._with_lines(len(self._text[: piece.start].rstrip(" ")), lines, before)

    def _with_first_member(self, mapping: Piece, key: str, value: Plain) -> str:
        members = mapping.members or []
        if mapping.is_flow:
            at = mapping.start + 1
            written = f"{scalar(key, True, self._is_json)}: {flow(value)}"
            if members:
                lead = self._line_lead(members[0][0].start)
                written = f"{lead}{written}," if lead.strip(" ") else f"{written}, "
            return self._text[:at] + written + self._text[at:]
        at = members[0][0].start - mapping.column
        return self._text[:at] + self._lines(block(key, value, mapping.column)) + self._text[at:]

    def _without_member(self, mapping: Piece, name: str) -> str:
        members = mapping.members or []
        index = next(at for at, (key, _) in enumerate(members) if key.text == name)
        key, value = members[index]
        end = max(key.end, value.end)
        if mapping.is_flow:
            if index + 1 < len(members):
                return self._text[: key.start] + self._text[members[index + 1][0].start :]
            start = members[index - 1][1].end if index else mapping.start + 1
            return self._text[:start] + self._text[end:]
        start = key.start - key.column
        return self._text[:start] + self._text[self._line_end(end) :]

    def _with_lines(self, after: int, lines: str, text: str | None = None, *, has_gap: bool = False) -> str:
        """The text with lines put after the line that `after` is in."""
        text = self._text if text is None else text
        at = self._line_end(after, text)
        gap = self._end_of_line if at and not text[:at].endswith("\n") else ""
        gap += self._end_of_line if has_gap and text[:at].strip() else ""
        return text[:at] + gap + self._lines(lines) + text[at:]

    def _line_end(self, position: int, text: str | None = None) -> int:
        text = self._text if text is None else text
        found = text.find("\n", position)
        return len(text) if found < 0 else found + 1

    def _line_lead(self, position: int) -> str:
        """What stands between the end of the line before and this position, if that is only blanks."""
        match = re.search(r"\r?\n[ \t]*\Z", self._text[:position])
        return match[0] if match else " "

    def _lines(self, lines: str) -> str:
        return lines.replace("\n", self._end_of_line)


_NULLS = frozenset({"", "~", "null"})


def _values(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: _values(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_values(child) for child in node.value]
    return node.value


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _without_empty(tree: dict[str, Any]) -> dict[str, Any]:
    """An empty section means the same as none."""
    return {key: value for key, value in tree.items() if value not in (None, {}, [])}
