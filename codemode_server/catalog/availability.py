"""Says of a server what prevents calls, in words for the model."""

from __future__ import annotations

from codemode_server.catalog.untrusted import last_lines, one_line
from codemode_server.domain.tools import STDERR_MARK, UpstreamListing, UpstreamState, without_output

_STDERR_CHARACTERS = 300


def is_down(listing: UpstreamListing) -> bool:
    """True if its last connection failed, also while it reconnects."""
    return listing.state in (UpstreamState.FAILED, UpstreamState.SIGNED_OUT) or (
        listing.state is UpstreamState.CONNECTING and bool(listing.error)
    )


def cause_of(listing: UpstreamListing) -> str:
    """Why it is not ready, on one line, with the last lines of its stderr; empty if that is not known."""
    error = listing.error or ""
    _, mark, stderr = error.partition(STDERR_MARK)
    return one_line(without_output(error), 200) + (
        f"{mark.rstrip()} {last_lines(stderr, _STDERR_CHARACTERS)}" if mark else ""
    )


def availability_of(listing: UpstreamListing) -> str:
    """Reason why calls fail; empty for an available server."""
    cause = cause_of(listing)
    why = f" ({cause})" if listing.error else ""
    if listing.state is UpstreamState.SIGNED_OUT:
        return f"unavailable: it {cause}"
    if is_down(listing):
        return f"unavailable: calls fail until it is back{why}"
    match listing.state:
        case UpstreamState.READY | UpstreamState.FAILED | UpstreamState.SIGNED_OUT:
            return ""
        case UpstreamState.WAITING | UpstreamState.CONNECTING:
            return "connecting"
        case UpstreamState.DISABLED:
            return "disabled in upstream.yaml: calls fail"
        case UpstreamState.INVALID:
            return f"disabled because its configuration is invalid{why}; the user must fix it"


def why_no_tools(listing: UpstreamListing) -> str:
    """The predicate of an error about a server that lists nothing."""
    match listing.state:
        case UpstreamState.DISABLED:
            return "is disabled in upstream.yaml; the user can enable it"
        case UpstreamState.READY:
            return "has no tools"
    availability = availability_of(listing)
    if availability == "connecting":
        return "has no tools yet: it is still connecting; run the program again later"
    return f"is {availability}"
