"""Compares commands of servers, and finds relative paths in them."""

from __future__ import annotations

import ntpath
import os
import re
from collections.abc import Iterable, Sequence

_RELATIVE = re.compile(r"\.{1,2}(?:[/\\][^\s:]*)?|[\w.-][^\s:@]*/(?:[^\s:@/]*\.[A-Za-z][A-Za-z0-9]{0,9})?")
"""A value that is surely a relative path: `.`, `./x`, `x/`, `data/x.db`; no address, package, image or zone."""
_PACKAGE_RUNNERS = {"npx": ("-y", "--yes"), "uvx": ()}
"""Programs that run packages, with their options that only say that nobody has to be asked."""


def relative_paths(args: Iterable[str], variables: Iterable[str]) -> list[str]:
    """The relative paths among the arguments, behind `--option=` too, and among the values of variables."""
    values = (arg.partition("=")[2] if arg.startswith("-") else arg for arg in args)
    return [it for it in (*values, *variables) if _RELATIVE.fullmatch(it)]


def start_the_same(ours: Sequence[str], theirs: Sequence[str], folder: str) -> bool:
    """True if two command lines start the same server, ours in this folder. A path of theirs may be absolute in ours,
    and options of a runner of packages may differ, which make no other server of a package: that nobody is asked, and
    which versions of libraries it gets."""
    (our_program, *our_args), (their_program, *their_args) = map(_without_options, (ours, theirs))
    return (
        _is_same_program(our_program, their_program)
        and len(our_args) == len(their_args)
        and all(
            one == two or one == os.path.normpath(os.path.join(folder, two))  # noqa: PTH118 - any word is legal here
            for one, two in zip(our_args, their_args, strict=True)
        )
    )


def _is_same_program(one: str, other: str) -> bool:
    """Compares by name where one of both is to be found on the PATH."""
    if one == other:
        return True
    (one_folder, one_name), (other_folder, other_name) = map(ntpath.split, (one, other))
    return not (one_folder and other_folder) and _bare(one_name) == _bare(other_name)


def _without_options(words: Sequence[str]) -> list[str]:
    program, *args = words
    runner = _bare(ntpath.basename(program))
    if runner not in _PACKAGE_RUNNERS:
        return [program, *args]
    left = [program]
    while args and args[0].startswith("-"):
        word = args.pop(0)
        if runner == "uvx" and word == "--with" and args:
            args.pop(0)
        elif word not in _PACKAGE_RUNNERS[runner] and not (runner == "uvx" and word.startswith("--with=")):
            left.append(word)
    return [*left, *args]


def _bare(name: str) -> str:
    return re.sub(r"\.(?:exe|cmd|bat)$", "", name.casefold())
