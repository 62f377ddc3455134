"""Asks for the tokens of what was found in a message of a server."""

from __future__ import annotations

from collections.abc import Sequence

from codemode_server.domain.errors import JournalUnavailable, ResultWithheld, TokensFull
from codemode_server.gateway.guessed_dates import withheld_dates
from codemode_server.gateway.upstream_message import UpstreamMessage
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.findings import Finding
from codemode_server.privacy.replacing import TokensOf, numbers_among
from codemode_server.privacy.token_map import TokenMap
from codemode_server.privacy_settings import PrivacySettings

_DATES_WITHHELD = (
    "results have <BIRTH_DATE> in place of birth dates where the arguments of the call had dates; a call without "
    "dates, for instance by ids, gets tokens"
)
_FEW = 200
"""So many findings are compared with the arguments on the event loop."""


async def tokens_of(
    tokens: TokenMap | None, settings: PrivacySettings, message: UpstreamMessage, found: Sequence[Finding]
) -> TokensOf:
    """What is put in place of all that was found in a message. It is asked for once: if a server may not get so many
    tokens, it gets none.

    Raises:
        ResultWithheld: there are no tokens for it.
    """
    if not found:
        return {}
    if tokens is None:
        raise ResultWithheld(f"{message.withheld}: there is no store of tokens")
    has_many = is_large(message.arguments) or len(found) > _FEW
    kinds = await run_sized(has_many, withheld_dates, found, message.sent_dates, settings)
    if kinds and _DATES_WITHHELD not in message.calls.messages:
        message.calls.messages.append(_DATES_WITHHELD)
    known = [it for it in found if (it.kind, it.value) not in kinds]
    principal, server = message.calls.context.principal.principal_id, message.target.server.raw_name
    try:
        made = await tokens.tokens_for(principal, known, settings.detection.regions, server, numbers_among(found))
    except (JournalUnavailable, TokensFull) as error:
        raise ResultWithheld(f"{message.withheld}: {error}") from error
    return {**made, **kinds}
