"""The error for a name that programs can't import from a server: what it stands for, and how to get that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codemode_server.catalog.naming import same_words, words
from codemode_server.catalog.nearest_names import nearest_tools
from codemode_server.catalog.resources import ServerResources
from codemode_server.catalog.untrusted import joined_within, one_line
from codemode_server.domain.resources import PromptDefinition

FOR_THE_USER = "prompts are for the user, who chooses them in the host"
_VERBS = frozenset({"get", "list", "read", "use", "run", "fetch", "show", "find", "all", "available", "templates"})
_PROMPT_CHARACTERS = 80
_LISTED_CHARACTERS = 400


def prompt_title(server: str, prompt: PromptDefinition) -> str:
    """`everything/args-prompt(city, state?)`, the name by which a host offers it."""
    arguments = ", ".join(f"{argument.name}{'' if argument.is_required else '?'}" for argument in prompt.arguments)
    return one_line(f"{server}/{prompt.name}{f'({arguments})' if arguments else ''}", _PROMPT_CHARACTERS)


def prompt_titles(server: str, prompts: Iterable[PromptDefinition]) -> str:
    """The prompts of a server, as many as fit on a line."""
    return joined_within((prompt_title(server, prompt) for prompt in prompts), _LISTED_CHARACTERS)


def meant_instead(
    name: str, resources: ServerResources, prompts: Sequence[PromptDefinition], members: Sequence[str]
) -> str:
    """Advice for an unknown name: the server's prompts or resources if it names them, else the nearest names."""
    server = resources.server
    if _is_about(name, "prompt") or any(same_words(name, prompt.name) for prompt in prompts):
        return f"{FOR_THE_USER}: {prompt_titles(server, prompts)}" if prompts else "it lists no prompts"
    if _is_about(name, "resource") and not resources.all:
        return "it lists no resources"
    if (same := resources.of_words(name)) or _is_about(name, "resource"):
        return resources.usage(same)
    return nearest_tools(name, members)


def _is_about(name: str, noun: str) -> bool:
    """True if a name says no more than `prompt`: `prompts`, `list_prompts`, `prompts/get`."""
    parts = {part.lower().removesuffix("s") for part in words(name)}
    return noun in parts and parts - {noun} <= {verb.removesuffix("s") for verb in _VERBS}
