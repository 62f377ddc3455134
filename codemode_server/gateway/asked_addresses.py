"""Personal data in the web address that a server asks the person to open."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from codemode_server.domain.errors import ResultWithheld
from codemode_server.domain.principals import Principal
from codemode_server.gateway.detection import Detection
from codemode_server.known_values import OwnLine
from codemode_server.privacy.token_map import KnownTexts


async def kinds_in_address(
    address: str, known: KnownTexts, detection: Detection, searched_for: Principal | None
) -> set[str]:
    """The kinds of the known values in an address and, if it is searched for a principal, of what the detection finds
    in it, but for what the settings allow."""
    spelled = (address, unquote(address))
    kinds = {it.kind for it in known.known_in([*spelled]) if it.original and not detection.allows(it.original)}
    if searched_for is not None:
        for text in spelled:
            kinds |= {it.kind for it in (await detection.find_without_names(searched_for, text)).found}
    return kinds


def require_none(kinds: Collection[str], server: str, messages: list[str]) -> None:
    """Raise `ResultWithheld` if there are such kinds in an address of a server. The model gets the reason as well."""
    if not kinds:
        return
    message = OwnLine(
        f"the address that {server} asks the user to open has personal data ({', '.join(sorted(kinds))}), so it is not "
        "shown to the host; values that the host may see belong in privacy.allow in upstream.yaml"
    )
    if message not in messages:
        messages.append(message)
    raise ResultWithheld(message)
