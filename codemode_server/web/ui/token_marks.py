"""Marks privacy tokens in a page: each becomes a link to the page where its value can be shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from markupsafe import Markup

_TAG_OR_TOKEN = re.compile(r"<[^>]*>|&lt;([A-Z][A-Z0-9_]*_[1-9][0-9]*)&gt;")
"""In escaped text and HTML that is made of it: there, `<` and `>` stand for nothing but tags."""


def with_token_links(html: Markup, known: Collection[str], base: str) -> Markup:
    """HTML in whose texts each of the known tokens, such as `<EMAIL_1>`, is a link; `base` is the path of the pages."""
    if not known:
        return html

    def link(found: re.Match[str]) -> str:
        name = found[1]
        if name is None or f"<{name}>" not in known:
            return found[0]
        return str(
            Markup('<a class="token" href="{base}/privacy/{name}" title="Privacy token">&lt;{name}&gt;</a>').format(
                base=base, name=name
            )
        )

    return Markup(_TAG_OR_TOKEN.sub(link, str(html)))  # noqa: S704 - only links are added to what is HTML already
