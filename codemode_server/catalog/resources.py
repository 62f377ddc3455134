"""The resources and templates of one server: their file names, and which one a program means.

A file name depends only on the resource's own name and URI, unless two are alike ignoring case; then all of these get a
suffix with a hash of their URI. So a name never moves from one resource to another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any
from urllib.parse import unquote

from codemode_server.catalog.naming import hashed, same_words
from codemode_server.catalog.nearest_names import nearest_names
from codemode_server.catalog.summaries import first_sentence
from codemode_server.catalog.untrusted import docstring, one_line, prose
from codemode_server.domain.resources import ResourceDefinition
from codemode_server.support.text import counted

MODULE = "resources"
_NAME_CHARACTERS = 80
_SUMMARY_CHARACTERS = 120
_DESCRIPTION_CHARACTERS = 2_000
_MAX_VALUE_CHARACTERS = 4_000
_MAX_MATCHED = 500
_MAX_MATCHING = 2_000_000
"""Characters for each variable of these templates; it takes about 0.1 s."""
_MAX_MATCHED_CHARACTERS = 8_192
_ESCAPED_UNRESERVED = re.compile("%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")


@dataclass(frozen=True, eq=False)
class Resource:
    server: str
    module: str
    """`resources`, or `resources_` if a tool of the server has that name."""
    name: str
    definition: ResourceDefinition

    @property
    def uri(self) -> str:
        return self.definition.uri

    @property
    def is_template(self) -> bool:
        return self.definition.is_template

    @property
    def path(self) -> str:
        return f"/servers/{self.server}/{self.module}/{self.name}"

    @property
    def import_line(self) -> str:
        return f"from servers.{self.server} import {self.module}"

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(_parsed(self.uri).variable_names) if self.is_template else ()

    def may_give(self, uri: str, forms: tuple[str, ...]) -> bool:
        """True if a server may take the URI for an expansion of this template; `forms` are those of the URI."""
        exact, normal = self._matchers
        if normal is None or exact.match(uri) is not None:
            return True
        return any(normal.match(form) is not None for form in forms)

    @cached_property
    def _matchers(self) -> tuple[Any, Any]:
        """The template as it is and in its normal form; None if that is none: its variables differ in case only."""
        try:
            return _parsed(self.uri), _parsed(_normal_form(self.uri))
        except ValueError:
            return None, None

    @property
    def read_line(self) -> str:
        return f"{self.module}.read({', '.join([repr(self.name), *(f'{_argument(it)}=…' for it in self.variables)])})"

    @property
    def usage(self) -> str:
        """Advice for a program that takes the resource for a tool."""
        return f"it is a resource: {self.import_line}; {self.read_line}"

    @property
    def summary(self) -> str:
        said = first_sentence(self.definition.description, _SUMMARY_CHARACTERS) or one_line(self.definition.title, 80)
        size = f"{self.definition.size:,} bytes" if self.definition.size is not None else ""
        it = self.definition
        kind = f"template: {one_line(it.public_uri, 120)}" if self.is_template else one_line(it.mime_type, 60)
        return " · ".join(part for part in (said, kind, size) if part)

    @property
    def text(self) -> str:
        """The file that stands for it: what is known of it, and how to read it; its content is not in it."""
        it = self.definition
        facts = {
            "URI template" if self.is_template else "URI": one_line(it.public_uri, 2_000),
            "name": one_line(it.name, 200),
            "title": one_line(it.title, 200),
            "MIME type": one_line(it.mime_type, 100),
            "size": f"{it.size:,} bytes" if it.size is not None else "",
        }
        lines = [f"{key}: {value}" for key, value in facts.items() if value]
        said = [prose(it.description, _DESCRIPTION_CHARACTERS)] if it.description else []
        how = [self.import_line, f"file = {self.read_line}  # its content: file.text, file.data"]
        return "\n".join([docstring("\n".join([*lines, *said])), *how]) + "\n"

    def as_json(self) -> dict[str, Any]:
        it = self.definition
        known = {"title": it.title, "description": it.description, "mime_type": it.mime_type, "size": it.size}
        found: dict[str, Any] = {"name": self.name, "uri": it.public_uri}
        if self.is_template:
            found["arguments"] = list(self.variables)
        return found | {key: value for key, value in known.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Found:
    uri: str
    resource: Resource | None = None
    """The listed resource, or the template that the URI is an expansion of."""
    problem: str = ""


class ServerResources:
    def __init__(self, server: str, definitions: Iterable[ResourceDefinition], *, has_tool: bool) -> None:
        """`server` is its Python name; `has_tool`: whether it has a tool called `resources`, which keeps that name."""
        self.server = server
        self.module = f"{MODULE}_" if has_tool else MODULE
        definitions = tuple(definitions)
        names = _file_names(definitions)
        self.all = tuple(
            sorted(
                (Resource(server, self.module, name, it) for name, it in zip(names, definitions, strict=True)),
                key=lambda resource: (resource.is_template, resource.name),
            )
        )

    @property
    def counts(self) -> str:
        """`7 resources and 2 templates`."""
        number = sum(resource.is_template for resource in self.all)
        return " and ".join(
            counted(count, word)
            for count, word in ((len(self.all) - number, "resource"), (number, "template"))
            if count
        )

    @cached_property
    def by_name(self) -> dict[str, Resource]:
        """By file name, by URI, and by the upstream's name where only one has it; the first of these wins."""
        raw = Counter(resource.definition.name for resource in self.all)
        return {
            **{it.definition.name: it for it in self.all if it.definition.name and raw[it.definition.name] == 1},
            **{it.definition.public_uri: it for it in self.all},
            **{it.name: it for it in self.all},
        }

    @property
    def source(self) -> str:
        example = next((it for it in self.all if not it.is_template), None)
        template = next((it for it in self.all if it.is_template), None)
        lines = [
            f'{self.counts} of servers.{self.server}; list_dir("/servers/{self.server}/{self.module}") shows them.',
            "",
            *([f"    {example.read_line}.text  # by name or URI"] if example else []),
            *([f"    {template.read_line}"] if template else []),
            f"    {self.module}.list()  # dicts with name, uri, description, mime_type …",
            *([f"    {self.module}.templates()  # the same of templates, with their arguments"] if template else []),
            "",
            "Each reading is a call. It gives a File (.text, .json(), .data), or a list of several; in async code",
            "awaitable.",
        ]
        return (
            f"{docstring(chr(10).join(lines))}\n\nfrom servers import Resources\n\n"
            f'{self.module} = Resources("{self.server}", "{self.module}")\n'
        )

    def of_words(self, name: str) -> Resource | None:
        """The one whose file name has these words: `features_md` for `features.md`."""
        short = name[:_NAME_CHARACTERS]
        return next((it for it in self.all if it.name == name or same_words(it.name, short)), None) if short else None

    def find(self, named: str, arguments: Mapping[str, Any]) -> Found:
        """The resource of this name or URI, with these arguments of a template."""
        resource = self.by_name.get(named)
        if resource is None:
            compared = () if arguments else self._compared(len(named))
            template = next((it for it in compared if _matches(it, named)), None)
            problem = "" if template else self._no_such(named)
            return Found(named, template, problem)
        if not resource.is_template:
            takes = f"{self.module}.read({resource.name!r}) takes no arguments" if arguments else ""
            return Found(resource.uri, resource, takes)
        try:
            return Found(_expanded(resource, arguments), resource)
        except ValueError as error:
            return Found(resource.uri, resource, str(error))

    def at(self, uri: str) -> Resource | None:
        found = self._by_normal_uri.get(_normal_form(uri), ())
        return next((it for it in found if it.uri == uri), None)

    def meant_by(self, uri: str) -> tuple[list[Resource], bool]:
        """The listed resources and templates that the server may take a URI for, and whether all were compared."""
        if len(uri) > _MAX_MATCHED_CHARACTERS:
            return [], False
        forms = _forms_of(uri)
        listed = [it for form in forms for it in self._by_normal_uri.get(form, ())]
        compared = self._compared(len(uri) * (1 + len(forms)))
        templates = [it for it in compared if it.may_give(uri, forms)]
        return [*listed, *templates], len(compared) == len(self._templates)

    def _compared(self, characters: int) -> tuple[Resource, ...]:
        """The templates that so many characters are compared with; matching takes time for each variable."""
        work = accumulate(characters * (1 + len(it.variables)) for it in self._templates[:_MAX_MATCHED])
        return self._templates[: sum(1 for _ in takewhile(lambda so_far: so_far <= _MAX_MATCHING, work))]

    @cached_property
    def _templates(self) -> tuple[Resource, ...]:
        return tuple(it for it in self.all if it.is_template)

    @cached_property
    def _by_normal_uri(self) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {}
        for resource in self.all:
            if not resource.is_template:
                found.setdefault(_normal_form(resource.uri), []).append(resource)
        return found

    def _no_such(self, named: str) -> str:
        shown = f'"{one_line(named, 200)}"'
        if not self.all:
            return f"servers.{self.server} has no resources, and no result in this program links to {shown}"
        near = nearest_names(named, {it.definition.public_uri if ":" in named else it.name for it in self.all})
        return f"servers.{self.server} has no resource {shown}, and no result in this program links to it; " + (
            near or f'{self.module}.list() and list_dir("/servers/{self.server}/{self.module}") show them'
        )


def _file_names(definitions: tuple[ResourceDefinition, ...]) -> list[str]:
    plain = [_file_name(it) for it in definitions]
    counts = Counter(name.casefold() for name in plain)
    return [
        # A long hash, since an upstream may provoke collisions.
        name if counts[name.casefold()] == 1 else f"{name[:60]}_{hashed(it.public_uri)[:26]}"
        for name, it in zip(plain, definitions, strict=True)
    ]


def _file_name(definition: ResourceDefinition) -> str:
    """Letters, digits, `.`, `-` and `_` of the name, or else of the end of the URI."""
    uri = definition.public_uri
    for text in (definition.name, uri.rstrip("/").rpartition("/")[2], uri):
        name = re.sub(r"[^\w.-]+", "_", text).strip("._-")
        if name:
            break
    if not name:
        return f"resource_{hashed(uri)[:4]}"
    is_long = len(name) > _NAME_CHARACTERS or len(name.encode()) > 2 * _NAME_CHARACTERS
    return f"{name.encode()[:60].decode(errors='ignore')}_{hashed(uri)[:8]}" if is_long else name


def _parsed(template: str) -> Any:
    from mcp.shared.uri_template import UriTemplate

    return UriTemplate.parse(template)


def _matches(template: Resource, uri: str) -> bool:
    """True if the template, expanded with some values, gives exactly this URI."""
    parsed = _parsed(template.uri)
    values = parsed.match(uri)
    if values is None:
        return False
    try:
        for value in values.values():
            _check_value("", value)
        return bool(parsed.expand(values) == uri)
    except (ValueError, TypeError):
        return False


def _argument(variable: str) -> str:
    return variable if variable.isidentifier() else variable.replace(".", "_")


def _expanded(template: Resource, arguments: Mapping[str, Any]) -> str:
    """The URI for these arguments. Raises `ValueError` with a message for the program."""
    known = {_argument(name): name for name in template.variables}
    given = {known.get(name, name): value for name, value in arguments.items()}
    unknown = [name for name in given if name not in template.variables]
    optional = _parsed(template.uri).query_variable_names
    missing = [name for name in template.variables if name not in given and name not in optional]
    call = f"{template.module}.read({template.name!r}, …)"
    takes = f"{call} takes {', '.join(map(_argument, template.variables)) or 'no arguments'}"
    if unknown:
        raise ValueError(f"{takes}, not {one_line(str(unknown[0]), 60)!r}")
    if missing:
        raise ValueError(f"{takes}; {missing[0]!r} is missing")
    try:
        values = {name: _text_of(value) for name, value in given.items()}
        for name, value in values.items():
            _check_value(name, value)
        uri: str = _parsed(template.uri).expand(values)
    except TypeError as error:
        raise ValueError(f"{call}: {one_line(str(error), 200)}") from None
    return uri


def _text_of(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(_text_of(item)) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"a value in a URI is text or a number, not {type(value).__name__}")


def _check_value(name: str, value: str | list[str]) -> None:
    """Raises `ValueError` for what would lead elsewhere than the template: `..` as a step of a path, control
    characters."""
    for text in value if isinstance(value, list) else [value]:
        if len(text) > _MAX_VALUE_CHARACTERS:
            raise ValueError(f"the argument {name!r} has more than {_MAX_VALUE_CHARACTERS:,} characters")
        if ".." in re.split(r"[/\\]", text) or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
            raise ValueError(f"the argument {name!r} must not hold '..' as a step of a path, or control characters")


def _normal_form(uri: str) -> str:
    """Normal form of a URI: upper case, `%41`, empty steps, `.` and `..` do not matter."""
    text = _ESCAPED_UNRESERVED.sub(lambda found: chr(int(found[1], 16)), uri).casefold()
    steps: list[str] = []
    for step in re.split(r"[/\\]+", text):
        if step == "..":
            del steps[max(1, len(steps) - 1) :]  # the scheme stays
        elif step != ".":
            steps.append(step)
    return "/".join(steps)


def _forms_of(uri: str) -> tuple[str, ...]:
    """The forms in which servers may understand a URI, so that a rule holds for each of them: as it is and decoded,
    each also without its query and fragment."""
    spellings = [text for whole in (uri, unquote(uri)) for text in (whole, re.split("[?#]", whole, maxsplit=1)[0])]
    return tuple(dict.fromkeys(_normal_form(text) for text in spellings))
