"""Keeps the values that a call has sent in place of tokens from the program that gets its answer, from any server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codemode_server.domain.ids import JsonValue
from codemode_server.gateway.binary_parts import BinaryPart
from codemode_server.gateway.release import Release
from codemode_server.gateway.text_files import ReadFile
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy_settings import PrivacySettings

_FEW = 20
"""So many values are looked for on the event loop."""


def sent_values(settings: PrivacySettings, release: Release | None) -> dict[str, str]:
    """The values that a call has sent, by token; none if programs may see them."""
    if release is None or settings.programs == "values":
        return {}
    return {token: it.original for token, it in release.known.items() if it.original is not None}


async def without_echo(
    value: JsonValue, files: Sequence[ReadFile], sent: Mapping[str, str], texts: Sequence[str] | None = None
) -> tuple[JsonValue, list[BinaryPart]]:
    """The value of an answer, and its files that are texts, with tokens in place of the values that were sent. `texts`
    are what the files are to have; without these, they have their own."""
    texts = [file.text for file in files] if texts is None else [*texts]
    if sent:
        from codemode_server.privacy.echoes import tokenized_echo  # not before something is sent

        has_many = len(sent) > _FEW or is_large([value, texts])
        value, texts = await run_sized(has_many, tokenized_echo, [value, texts], sent)
    return value, [file.with_text(text) for file, text in zip(files, texts, strict=True)]
