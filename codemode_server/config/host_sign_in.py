"""Translates what a host's entry says about signing in to a server into our `oauth` section."""

from __future__ import annotations

import re

from codemode_server.config.document import Node

SIGN_IN = frozenset({"oauth", "auth"})
_SYNONYMS = {
    "clientId": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "scope": "scopes",
    "redirectUri": "redirect_uri",
    "clientMetadataUrl": "client_metadata_url",
    "tokenEndpointAuthMethod": "token_endpoint_auth_method",
}
_OURS = frozenset(
    {
        "grant",
        "client_id",
        "client_secret",
        "token_endpoint_auth_method",
        "private_key",
        "private_key_algorithm",
        "scopes",
        "redirect_uri",
        "client_metadata_url",
        "issuer",
    }
)
_WELL_KNOWN = re.compile(r"(https?://[^/]+)/\.well-known/(?:oauth-authorization-server|openid-configuration)(/.*)?")
_OPENID = re.compile(r"(https?://.+)/\.well-known/openid-configuration")


def oauth_section(node: Node, scopes: Node | None) -> tuple[Node | None, list[str]]:
    """The section, if it says anything, and the keys that have no meaning here. `scopes` are those that the entry
    names beside it."""
    ours: dict[str, Node] = {}
    ignored: list[str] = []
    for key, value in node.entries.items():
        name = _SYNONYMS.get(key, key)
        if name in _OURS:
            ours[name] = _as_list(value) if name == "scopes" else value
        elif key == "callbackPort":  # Claude Code registers its redirect in this form
            ours["redirect_uri"] = value.with_value(f"http://localhost:{value.text}/callback")
        elif key == "authServerMetadataUrl" and (issuer := _issuer_of(value.text)):
            ours["issuer"] = value.with_value(issuer)
        elif key != "enabled":
            ignored.append(key)
    if scopes is not None:
        ours.setdefault("scopes", _as_list(scopes))
    return (node.with_value(ours) if ours else None), ignored


def _as_list(node: Node) -> Node:
    """Several hosts write scopes as one string."""
    if isinstance(node.value, str):
        return node.with_value([node.with_value(scope) for scope in node.text.split()])
    return node


def _issuer_of(metadata_url: str) -> str:
    """The issuer whose metadata are at this address (RFC 8414, OpenID Connect Discovery); empty if it has another
    form."""
    if found := _WELL_KNOWN.fullmatch(metadata_url):
        return found[1] + (found[2] or "")
    found = _OPENID.fullmatch(metadata_url)
    return found[1] if found else ""
