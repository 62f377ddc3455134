"""The answers to `list_dir` and `read_tool`: folders with their entries, and files, each as text for the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a folder."""

    name: str
    note: str = ""
    is_folder: bool = False

    @property
    def text(self) -> str:
        name = f"{self.name}/" if self.is_folder else self.name
        return f"{name}  {self.note}" if self.note else name


@dataclass(frozen=True, slots=True)
class Folder:
    """The answer to one `list_dir`."""

    path: str
    summary: str
    entries: tuple[Entry, ...]
    page: int = 1
    pages: int = 1

    @property
    def text(self) -> str:
        lines = [
            f"{self.path} · {self.summary}" if self.summary else self.path,
            *(entry.text for entry in self.entries),
        ]
        if self.page < self.pages:
            lines.append(f'page {self.page} of {self.pages}; next: list_dir("{self.path}?page={self.page + 1}")')
        elif self.pages > 1:
            lines.append(f"page {self.page} of {self.pages}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class File:
    """One file, or a part of it, that `read_tool` read."""

    path: str
    lines: tuple[str, ...]
    first_line: int = 1
    total_lines: int = 0
    note: str = ""

    @property
    def text(self) -> str:
        part = len(self.lines) < self.total_lines
        place = (
            f" · lines {self.first_line}-{self.first_line + len(self.lines) - 1} of {self.total_lines}" if part else ""
        )
        return "\n".join([f"# {self.path}{place}{self.note}", *self.lines])


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer to one `read_tool`: files, and folders where a path named one."""

    parts: tuple[File | Folder, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts)
