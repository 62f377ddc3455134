"""The forms in which servers may understand one URI, so that a rule against a resource holds for each of them."""

from __future__ import annotations

import re
from urllib.parse import unquote

_ESCAPED_UNRESERVED = re.compile("%(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF]|7[eE])")


def normal_form(uri: str) -> str:
    """Normal form of a URI: upper case, `%41`, empty steps, `.` and `..` do not matter."""
    text = _ESCAPED_UNRESERVED.sub(lambda found: chr(int(found[1], 16)), uri).casefold()
    steps: list[str] = []
    for step in re.split(r"[/\\]+", text):
        if step == "..":
            del steps[max(1, len(steps) - 1) :]  # the scheme stays
        elif step != ".":
            steps.append(step)
    return "/".join(steps)


def forms_of(uri: str) -> tuple[str, ...]:
    """The normal forms of the URI: as it is and decoded, each also without its query and fragment."""
    spellings = [text for whole in (uri, unquote(uri)) for text in (whole, re.split("[?#]", whole, maxsplit=1)[0])]
    return tuple(dict.fromkeys(normal_form(text) for text in spellings))
