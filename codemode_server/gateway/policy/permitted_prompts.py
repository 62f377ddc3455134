"""Leaves prompts out of a catalog that the permissions deny whatever their arguments are: nobody is told of them.

A prompt that a person is asked about stays. Each call is decided on by itself all the same.
"""

from __future__ import annotations

from dataclasses import replace

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.gateway.policy.rules import PermissionRules, Subject
from codemode_server.gateway.targets import prompt_spellings
from codemode_server.permission_settings import PermissionSettings


def with_permitted_prompts(catalog: Catalog, permissions: PermissionSettings) -> Catalog:
    """The catalog with the permitted prompts of each server. What does not change stays the same object, since what
    was computed of it is stored in it."""
    rules = PermissionRules(permissions)

    def permitted(server: Server) -> Server:
        prompts = tuple(
            prompt
            for prompt in server.listing.prompts
            if rules.always_denied(Subject.of_reading(server, prompt_spellings(prompt.name))) is None
        )
        return server if server.prompts == prompts else replace(server, prompts=prompts)

    servers = tuple(map(permitted, catalog.servers))
    return catalog if servers == catalog.servers else Catalog(servers)
