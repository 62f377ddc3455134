"""The section `pages` of `upstream.yaml`: whether a running product serves the local pages."""

from __future__ import annotations

from pydantic import Field

from codemode_server.setting_types import Number, Section


class PageSettings(Section):
    """The local pages of a running product. Without them, `codemode-server ui` serves the pages itself."""

    serve: bool = False
    """A running product serves the pages to this machine, and `codemode-server ui` opens them. What opens them is in a
    private file of the state folder, so whatever can read your files can also approve calls there: leave it off where
    a host gives the model a shell without a sandbox."""
    port: Number | None = Field(default=None, ge=1, le=65_535)
    """The port on 127.0.0.1, for a tunnel or a container; default: a free one. Products that run at the same time need
    ports of their own."""
