"""Which ranking a server would have here: each level loaded once and ended, for `status` and `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from codemode_server.domain.errors import CodemodeError, EncoderFailed
from codemode_server.search.encoding.build_encoders import SemanticEncoder, TableEncoder
from codemode_server.search.encoding.client import LoadableEncoder
from codemode_server.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found."""

    level: Literal["lexical", "static", "semantic"]
    """The best that can be had."""
    told: str
    """What it ranks by."""
    is_met: bool
    """Whether it is what the settings ask for."""
    problem: str = ""
    """Why there is none above it, if one was looked for."""
    remedy: str = ""

    @property
    def text(self) -> str:
        if not self.problem:
            return f"{self.level}, by {self.told}"
        more = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level}, by {self.told}, since there is no better: {self.problem}{more}"


def examine(settings: SearchSettings) -> Examined:
    """Blocking: for seconds, with a large model. Downloads nothing."""
    words = Examined("lexical", "words", settings.ranker == "lexical")
    if settings.ranker == "lexical":
        return words
    problem: CodemodeError | None = None
    if settings.ranker != "static":
        encoder = SemanticEncoder(settings, may_download=False)
        problem = _tried(encoder)
        if problem is None:
            return Examined("semantic", f"words and {encoder.told}", is_met=True)
    is_met = settings.ranker == "auto" and settings.endpoint is None
    table = TableEncoder()
    no_table = _tried(table)
    if no_table is None:
        return Examined("static", f"words and {table.told}", is_met or problem is None, *_told(problem))
    return Examined("lexical", "words", is_met, *_told(problem or no_table))


def _tried(encoder: LoadableEncoder) -> CodemodeError | None:
    """What is wrong with an encoder."""
    try:
        encoder.load()
        encoder.queries(["search"])
    except CodemodeError as error:
        return error
    finally:
        encoder.close()
    return None


def _told(problem: CodemodeError | None) -> tuple[str, str]:
    if isinstance(problem, EncoderFailed):
        return problem.reason, problem.remedy
    return str(problem or ""), ""
