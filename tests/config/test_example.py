"""The example `upstream.yaml` and the schema for editors say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ruamel.yaml import YAML

from codemode_server.config import load
from codemode_server.config.live import local_principal
from codemode_server.config.settings import Settings, json_schema
from codemode_server.features.telemetry.settings import TracingSettings

if TYPE_CHECKING:
    from tests.config.conftest import Folder

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "upstream.yaml"
OTHERS = {"nodes", "node_token", "node_ca", "packages", "packages_lock"}
"""Settings of the sandbox that have no default to show, or one that depends on the folder."""


def _uncommented() -> str:
    """The example with every documented value in force: `# key: value` becomes `key: value`."""
    return re.sub(r"^( *)# ( *)(?=(?:- )?\w+:(?: |$)|\{)", r"\1\2", EXAMPLE.read_text(), flags=re.MULTILINE)


def test_the_example_loads_without_any_variable_and_configures_no_server() -> None:
    """Disabled example servers would show up as rows and stubs of servers that the person never asked for."""
    loaded = load(EXAMPLE, environ={}, cwd=ROOT)
    assert loaded.warnings == ()
    assert loaded.settings.servers == {}


def test_everything_that_stands_in_comments_loads_too_and_shows_the_defaults(folder: Folder) -> None:
    loaded = folder.load(
        _uncommented(),
        env=dict.fromkeys(
            ("HOME", "PGPASSWORD", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "GITHUB_TOKEN", "LINEAR_TOKEN"),
            "/home/me",
        )
        | {"CODEMODE_KEY": "k" * 32, "CODEMODE_NODE_TOKEN": "k" * 32},
    )
    settings, defaults = loaded.settings, Settings()
    assert list(settings.servers) == ["filesystem", "github", "linear", "time"]
    assert settings.permissions.rules
    assert settings.limits == defaults.limits
    assert settings.sandbox.nodes
    assert settings.sandbox.packages
    assert Path(settings.sandbox.packages_lock).is_absolute()
    assert settings.sandbox.model_dump(exclude=OTHERS) == defaults.sandbox.model_dump(exclude=OTHERS)
    assert settings.search == defaults.search
    assert TracingSettings.of(settings).service_name == TracingSettings.of(defaults).service_name
    assert settings.state.payloads == defaults.state.payloads
    assert settings.principal == local_principal(defaults).principal_id
    assert settings.groups
    assert settings.http.oidc is not None


def test_every_section_and_every_limit_is_in_the_example() -> None:
    example = YAML(typ="safe").load(_uncommented())
    assert set(example) == {*Settings.model_fields, "mcpServers"}
    for section in ("limits", "sandbox", "search", "state", "tracing", "permissions"):
        # `preset` stands in the place of `default`
        without = {"permissions": {"default"}}.get(section, set())
        assert set(example[section]) == set(type(getattr(Settings(), section)).model_fields) - without, section


def test_every_field_is_documented_in_the_schema_and_no_other_is_allowed() -> None:
    schema = json_schema()
    for definition in (schema, *schema["$defs"].values()):
        assert definition["description"]
        assert definition["additionalProperties"] is False
        assert [name for name, field in definition["properties"].items() if not field.get("description")] == []
