"""Who uses the product: the key of the file, the variable over it, the former key, and which names there can be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codemode_server.config import load
from codemode_server.config.live import Caller, LiveConfig, local_principal
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Identity, Principal, Session, checked_name

if TYPE_CHECKING:
    from tests.config.conftest import Folder


@pytest.mark.parametrize(
    ("text", "variable", "name"),
    [
        ("servers: {}", "", "default"),
        ("principal: alice", "", "alice"),
        ("principal: alice", "bob", "bob"),
        ("servers: {}", "bob", "bob"),
    ],
)
def test_the_variable_comes_before_the_file(folder: Folder, text: str, variable: str, name: str) -> None:
    loaded = folder.load(text, env={"CODEMODE_PRINCIPAL": variable})
    assert local_principal(loaded.settings).principal_id == name


def test_the_variable_counts_without_a_file_but_not_in_a_dotenv(folder: Folder, tmp_path: Path) -> None:
    folder.write(".env", "CODEMODE_PRINCIPAL=mallory\n")
    assert local_principal(folder.load("servers: {}").settings).principal_id == "default"
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    environ = {"CODEMODE_PRINCIPAL": "bob", "HOME": str(elsewhere), "XDG_CONFIG_HOME": str(elsewhere)}
    assert local_principal(load(None, environ=environ, cwd=elsewhere).settings).principal_id == "bob"


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a..b", "a.", ".a", "-a", "@a", "a/b", "a\\b", "a b", "a:b", "a\n", "\ta", "a\0"),
        *("Alice", "\u00e4", "a\u0308", "\u0430", "\uff41", "\u2170", "a\u200d", "\u0661"),
        *("con", "nul", "aux.txt", "com0", "lpt9.log", "a" * 65),
    ],
)
def test_a_name_may_not_be(folder: Folder, name: str) -> None:
    with pytest.raises(ValueError, match=r"name|lower case"):
        checked_name(name)
    if name and "\0" not in name:
        with pytest.raises(SettingsError, match=r"\$CODEMODE_PRINCIPAL is no"):
            folder.load("servers: {}", env={"CODEMODE_PRINCIPAL": name})


def test_the_groups_of_a_principal_are_those_of_the_file_and_of_its_token(folder: Folder) -> None:
    config = LiveConfig(folder.load("groups: {ops: [alice, bob], dev: [bob]}").settings)
    identity = Identity(Principal(PrincipalId("alice")), frozenset({"staff"}))
    context = Caller.of(Session("s"), config, identity)
    assert context.names == {"alice", "group:ops", "group:staff"}
    assert not context.is_local
    assert Caller.of(Session("s"), config).is_local


def test_a_rule_for_a_group_that_there_is_not_is_told(folder: Folder) -> None:
    rules = "groups: {ops: [alice]}\npermissions: {rules: [{deny: a, principals: [alice, 'group:opps']}]}"
    (warning,) = folder.load(rules).warnings
    assert warning == "upstream.yaml:2: permissions.rules[rule 1].principals: no group 'opps'; did you mean 'ops'?"
    assert folder.load(rules.replace("opps", "ops")).warnings == ()
    oidc = "http: {oidc: {issuer: 'https://login.example.com', audience: a, groups_claim: groups}}"
    assert folder.load(f"{rules}\n{oidc}").warnings == (), "the issuer may know it"
