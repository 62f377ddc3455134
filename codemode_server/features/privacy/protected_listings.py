"""The listings as the model may read them of servers whose answers are searched for personal data.

Texts have the kind in place of what is found (`<EMAIL>`): a listing belongs to no principal, so it has no tokens.
Schemas lose enumerations, defaults and examples with personal data. A URI with personal data is shown as another one,
which stays the same as long as the key of the tokens does, and read as what it is. What a server wrote to stderr is for
the person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from codemode_server.calls.policy.names import Spellings
from codemode_server.catalog.naming import Kind, name_alone, server_names
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.resources import PromptDefinition, ResourceDefinition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, without_output
from codemode_server.features.privacy.detection import Detection
from codemode_server.features.privacy.protection import mode_of
from codemode_server.features.privacy.replacing import with_kinds
from codemode_server.features.privacy.settings import PrivacySettings
from codemode_server.support.extras import has_privacy

_TEXTS_OF_TOOL = ("title", "description", "input_schema", "output_schema")
_VALUES = ("enum", "const", "default", "examples", "example")
"""The keywords of schemas that are no descriptions."""
_MARK_CHARACTERS = 16
"""Hexadecimal digits behind a URI that is shown in place of another one."""
_UNSEARCHED = "[withheld: it can't be searched for personal data]"


class ProtectedListings:
    """Remembers what it has made, so that an unchanged listing remains the same object."""

    def __init__(self, config: LiveConfig, fingerprint: Callable[[bytes, str], bytes]) -> None:
        """`fingerprint`: see `TokenCipher`; a plain hash of a URI would tell whether a guess of it is right."""
        self._config = config
        self._fingerprint = fingerprint
        self._made: dict[str, tuple[PrivacySettings, UpstreamListing, UpstreamListing]] = {}
        """The listing of each server and the one that is shown, under these settings."""
        self._detection = Detection(config)

    def within(self, listings: Iterable[UpstreamListing]) -> list[UpstreamListing]:
        """These listings as they are shown."""
        listings = list(listings)
        if not PrivacySettings.of(self._config.settings).is_on:
            return listings
        names = server_names(it.name for it in listings)
        return [
            self._within(it, Spellings(it.name, names[it.name], name_alone(it.name, Kind.SERVER))) for it in listings
        ]

    def _within(self, listing: UpstreamListing, names: Spellings) -> UpstreamListing:
        settings = PrivacySettings.of(self._config.settings)
        if mode_of(settings, names) == "values":
            return listing
        known = self._made.get(listing.name)
        if known is None or known[0] is not settings or known[1] is not listing:
            known = self._made[listing.name] = settings, listing, self._protected(listing)
        return known[2]

    def _protected(self, listing: UpstreamListing) -> UpstreamListing:
        error = listing.error and without_output(listing.error)
        return replace(
            listing,
            tools=tuple(map(self._masked_tool, listing.tools)),
            description=self._text(listing.description),
            error=error and self._text(error),
            error_for_person=listing.error,
            problems=tuple(map(self._text, listing.problems)),
            resources=self._resources(listing.name, listing.resources),
            prompts=tuple(map(self._prompt, listing.prompts)),
        )

    def _masked_tool(self, tool: ToolDefinition) -> ToolDefinition:
        given = {name: getattr(tool, name) for name in _TEXTS_OF_TOOL}
        shown = self._masked(given)
        if shown is None:
            return replace(tool, title=None, description=_UNSEARCHED, input_schema={}, output_schema=None)
        changed = {name: _without_values(item, given[name]) for name, item in shown.items() if item is not given[name]}
        return replace(tool, **changed) if changed else tool

    def _resources(self, server: str, listed: tuple[ResourceDefinition, ...]) -> tuple[ResourceDefinition, ...]:
        shown_uris = {it.uri: self._shown_uri(server, it.uri) for it in listed}
        return tuple(
            replace(
                it,
                name=self._text(it.name) or shown_uris[it.uri].rstrip("/").rpartition("/")[2],
                title=it.title and self._text(it.title),
                description=self._text(it.description),
                shown_uri=shown_uris[it.uri],
            )
            for it in listed
        )

    def _shown_uri(self, server: str, uri: str) -> str:
        """A URI with personal data with the kinds, and a mark that tells it from others; empty if it has none."""
        if (text := self._text(uri)) == uri:
            return ""
        try:
            mark = self._fingerprint(uri.encode("utf-8", "surrogatepass"), f"uri/{server}")
        except JournalUnavailable:
            return text
        return f"{text}#{mark.hex()[:_MARK_CHARACTERS]}"

    def _prompt(self, prompt: PromptDefinition) -> PromptDefinition:
        arguments = tuple(replace(it, description=self._text(it.description)) for it in prompt.arguments)
        return replace(
            prompt,
            title=prompt.title and self._text(prompt.title),
            description=self._text(prompt.description),
            arguments=arguments,
        )

    def _text(self, text: str) -> str:
        if not text:
            return text
        shown = self._masked(text)
        return _UNSEARCHED if shown is None else str(shown)

    def _masked(self, value: Any) -> Any:
        """A value with the kinds in place of what is found, the same object if nothing is; None if it can't be
        searched, as without the detection, when no call of the server is allowed."""
        findings = self._detection.detector.in_value(value) if has_privacy() else None
        return with_kinds(value, findings) if findings is not None and findings.is_complete else None


def _without_values(shown: Any, given: Any) -> Any:
    """A masked schema without the enumerations, defaults and examples that masking has changed."""
    if shown is given or not isinstance(shown, dict):
        return [*map(_without_values, shown, given)] if isinstance(shown, list) and shown is not given else shown
    pairs = zip(shown.items(), given.values(), strict=True)
    return {
        key: _without_values(item, before)
        for (key, item), before in pairs
        if not (key in _VALUES and item is not before and item != before)
    }
