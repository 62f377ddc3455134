"""Edits of the configuration that a person sees as a difference before they are written: of entries, and of rules.

The form of an edit sends its number and nothing of its content, so it saves only what was shown.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.config import locate, saving
from codemode_server.config.description import shown_address
from codemode_server.config.import_plan import ImportPlan
from codemode_server.config.loading import load_place
from codemode_server.config.places import ConfigFile
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.site import Site
from codemode_server.records.executions import Records
from codemode_server.records.server_edits import SecretDestination

_MAX_WAITING = 20
_MAX_LINES = 1_000
"""Lines of a difference in a page; nobody saves a change of which a page shows only the beginning."""


@dataclass(frozen=True, slots=True)
class EditExtras:
    """What belongs to an edit and is not in the text of the file."""

    env_secrets: Mapping[str, str] = field(repr=False)
    """To be stored in `.env`, by the names that the file refers to."""
    note: str = ""
    """What the person may have to do once it is saved."""

    @classmethod
    def of(cls, file: EditedFile, made: ImportPlan, then: str = "") -> EditExtras:
        """Of servers that are added; `then`: what the person may do besides."""
        unset = f"Still to be set in {file.dotenv}: {', '.join(made.to_set)}." if made.to_set else ""
        return cls(made.secrets, " ".join(filter(None, [unset, then])))


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit that waits for the person."""

    title: str
    before: str
    after: str
    lines: list[str]
    back: str
    """The page where it was asked for, to which saving leads."""
    is_removal: bool
    extras: EditExtras


Edit = Callable[[EditedFile, SecretDestination], EditExtras | None]
"""Edits the text of the file. Blocks. Raises `CodemodeError`."""


class ConfigEdits:
    def __init__(self, site: Site, records: Records) -> None:
        self._site = site
        self._records = records
        self._waiting: dict[str, Proposal] = {}
        site.get("changes/{number}", self._show)
        site.post("changes/{number}", self._save)

    @property
    def place(self) -> ConfigFile:
        """The file that is edited; it may not exist yet."""
        return self._records.loaded.place or locate()

    def mask(self) -> Callable[[str], str]:
        """Masks the secrets of the file as it is, the short ones too. Blocks."""
        loaded = self._records.present()
        return lambda text: loaded.redactor.text(shown_address(text, loaded))

    async def propose(self, title: str, edit: Edit, back: str, *, is_removal: bool = False) -> Response:
        """Leads to the page that shows the edit. Raises `CodemodeError`, as `edit` does."""

        def made() -> Proposal:
            file = EditedFile(self.place)
            before = file.text.text
            extras = edit(file, SecretDestination(file, "dotenv")) or EditExtras({})
            if file.text.text == before:
                raise CodemodeError("nothing would change")
            lines = [*difflib.unified_diff(before.splitlines(), file.text.text.splitlines(), lineterm="")][2:]
            if len(lines) > _MAX_LINES:
                raise CodemodeError(f"the change has {len(lines):,} lines, too many to show; edit {file.path} by hand")
            mask = self.mask()
            shown = [mask(line) for line in lines]
            return Proposal(title, before, file.text.text, shown, back, is_removal, extras)

        number, proposal = secrets.token_hex(8), await anyio.to_thread.run_sync(made)
        self._waiting[number] = proposal
        for old in [*self._waiting][:-_MAX_WAITING]:
            del self._waiting[old]
        return self._site.redirect(f"changes/{number}")

    async def _show(self, request: Request) -> Response:
        number = request.path_params["number"]
        if (proposal := self._waiting.get(number)) is None:
            return self._site.message(404, "Nothing to save", "This change was saved, or is no longer offered.")
        return await self._site.page(
            "change",
            "servers",
            number=number,
            change=proposal,
            file=str(self.place.path),
            dotenv=str(self.place.path.with_name(".env")),
        )

    async def _save(self, request: Request, _: Mapping[str, str]) -> Response:
        if (proposal := self._waiting.pop(request.path_params["number"], None)) is None:
            raise CodemodeError("this change was saved, or is no longer offered")

        def save() -> str:
            with saving.locked(self.place) as file:
                if file.text.text != proposal.before:
                    changed = f"{self.place.path} has changed since the page was shown"
                    raise CodemodeError(f"nothing was saved: {changed}; make the change again")
                file.text.text = proposal.after
                storing = SecretDestination(file, "dotenv").storing(proposal.extras.env_secrets)
                copy = file.save(storing, keeps_copy=proposal.is_removal)
            done = [f"Saved in {self.place.path}."]
            if copy is not None:
                done.append(f"The file as it was: {copy}.")
            return self.after_saving(file, done, proposal.extras)

        return self._site.redirect(proposal.back, await anyio.to_thread.run_sync(save))

    def after_saving(self, file: EditedFile, done: Sequence[str], extras: EditExtras) -> str:
        """What to tell the person of a saved file: what was `done`, and what is left to do. From now on the pages are
        of this file, also if it is the first. Blocks."""
        if file.is_new:
            self._records.loaded = load_place(self.place, require_trust=False, resolve=False)
        names = ", ".join(extras.env_secrets)
        secrets = f"Secrets are in {file.dotenv}: {names}." if names else ""
        trust = file.trust_needed if file.needs_trust else ""
        return " ".join(filter(None, [*done, secrets, extras.note, trust]))
