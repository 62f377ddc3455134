"""The typed settings of one codemode-server: the sections and fields of `upstream.yaml`. Neither the messages of
validators nor the `repr` of the settings contain values that may be secrets."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, create_model, field_validator

from codemode_server.calls.policy.settings import PermissionRule as PermissionRule
from codemode_server.calls.policy.settings import PermissionSettings as PermissionSettings
from codemode_server.features import FEATURES
from codemode_server.mcp_server.http_settings import HttpSettings as HttpSettings
from codemode_server.mcp_server.http_settings import PrincipalName
from codemode_server.sandbox.registry import SandboxSettings as SandboxSettings
from codemode_server.support.setting_types import Environment, Holds, Number, Seconds, Section
from codemode_server.upstreams.transports import registry as transports

SERVER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

MIN_KEY_CHARACTERS = 32

if TYPE_CHECKING:
    from codemode_server.upstreams.transports.registry import ServerSettings as ServerSettings
    from codemode_server.upstreams.transports.registry import ToolFilter as ToolFilter
else:
    ServerSettings, ToolFilter = transports.settings_model(), transports.ToolFilter


class ApprovalSettings(Section):
    """How a person is asked to approve a call for which the permissions say `ask`."""

    timeout: Seconds = 86_400.0
    """How long a question may stay without an answer, seconds; then the call is refused."""
    answer_seconds: Seconds = 45.0
    """How long `execute_code` waits for the person before it answers with status `waiting`, seconds; the program stays
    suspended, and `execute_code(resume=…)` continues to wait. Has to be below the time that the host gives a call."""
    suspended_seconds: Seconds = 600.0
    """How long a suspended program keeps its sandbox, seconds. After that it is ended, and runs again from the journal
    once it is resumed."""
    unknown: Literal["ask", "retry", "skip", "fail"] = "ask"
    """Handling of a resumed program's call that was sent before and whose outcome is not known. `ask`: a person is
    asked, `retry`: it is sent again, `skip`: it is taken as arrived and gives None, `fail`: it fails. One that only
    reads is sent again."""
    browser: Literal["auto", "never"] = "auto"
    """`auto` opens a question in the user's browser, where the host can't show it. That needs a display."""


class LimitSettings(Section):
    """Limits for one program. Unless a limit says otherwise, a program that exceeds it ends with an error that names
    the setting; later programs are not affected."""

    wall_seconds: Seconds = 60.0
    """Time during which the program has no call in flight."""
    upstream_seconds: Seconds = 600.0
    """Time during which at least one call is in flight; not part of `wall_seconds`. Also the longest that one call may
    take, even if its server reports progress (`servers.<name>.timeout` limits the time without progress)."""
    input_seconds: Seconds = 300.0
    """Time that one program may wait for what its servers ask of the user, or of a model, during calls; not part of
    `wall_seconds` and `upstream_seconds`. What is not answered by then is answered with `cancel`, and the program goes
    on."""
    input_requests: Number = Field(default=20, ge=0, le=1_000)
    """How often servers may ask for that during one program, and at most 10 times during one call; what they ask beyond
    it is refused."""
    memory_mb: Number = Field(default=256, ge=64, le=4096)
    """Memory of the program, MiB."""
    output_bytes: Number = Field(default=8 * 2**20, ge=1024)
    """Printed output that is shown, stdout and stderr together, bytes; longer output is stored for later programs. A
    program that prints more than both this and `call_bytes` is ended."""
    output_tokens: Number = Field(default=6_000, ge=100)
    """Tokens of value, stdout, stderr and shown text together that the model receives. Longer results are cut, and no
    program is ended: a value keeps its first items and all keys, printed text its first and last lines, and the whole
    is stored."""
    shown_files: Number = Field(default=8, ge=0, le=64)
    """Images, sounds and files that one program can show to the model (`codemode.show`). For more, the model gets a
    link."""
    shown_bytes: Number = Field(default=768 * 2**10, ge=0, le=16 * 2**20)
    """Their total size as they are sent (in base64), bytes; hosts accept at most 1 MB in all."""
    kept_mb: Number = Field(default=64, ge=0, le=4_096)
    """Space for the values, output and shown files that one session stores for its later programs, MiB; the oldest are
    deleted first. 0 stores nothing."""
    calls: Number = Field(default=1_000, ge=0)
    """Calls that one program may make. The next one ends it; a later program reads the results of its calls."""
    calls_in_flight: Number = Field(default=16, ge=1, le=256)
    """Calls of one program in flight at once; more wait for their turn."""
    call_bytes: Number = Field(default=16 * 2**20, ge=1024, le=256 * 2**20)
    """Size of one call's arguments, and of its result, as JSON, bytes; either has at most 500,000 values as well."""
    value_bytes: Number = Field(default=4 * 2**20, ge=1024, le=64 * 2**20)
    """Size of the returned value that is shown, as JSON, bytes; a larger value is stored for later programs. A program
    that returns more than both this and `call_bytes`, or more than 500,000 values, is ended."""
    programs: Number = Field(default=4, ge=1, le=64)
    """Programs that run at once; more wait for `queue_seconds`. The session with the fewest running is next."""
    principal_programs: Number = Field(default=0, ge=0, le=64)
    """Programs of one principal that run at once, over all of its sessions; more wait for `queue_seconds`. 0: only
    `programs` limits them."""
    calls_per_minute: Number = Field(default=0, ge=0, le=100_000)
    """Calls of one principal within a minute, over all of its programs; further calls are refused. 0: no limit."""
    queue_seconds: Seconds = 30.0
    """How long a program waits for its turn before it is refused."""
    workspace_mb: Number = Field(default=256, ge=1)
    """Size of one principal's files under /workspace, and separately of those under /tmp, MiB. A program that exceeds
    it is ended, and what it added to /workspace beyond it is removed. Files can always be deleted, also above the
    limit."""


class SearchSettings(Section):
    """How `search_tools` ranks."""

    read_at_start = ("ranker", "model")

    ranker: Literal["auto", "lexical", "static", "semantic"] = "auto"
    """`lexical` ranks by words; `static` adds a small table of what words mean; `semantic` adds a model. `auto` takes
    the best that is on this machine and downloads nothing; `semantic` downloads a missing model. While a ranker is not
    ready or not available, the next simpler one answers; `codemode-server status` shows which one."""
    model: str = Field(default="all-MiniLM-L6-v2", min_length=1, max_length=500)
    """Model of `semantic`: a name on the Hugging Face hub, or a folder (`./models/…`, relative to the configuration
    file)."""
    habits: bool = True
    """Puts tools called often, or of servers called in the session, first among equals. Stored: names of tools and a
    number that fades within weeks, no queries, arguments or results. `false` deletes them."""
    listed_tokens: Number = Field(default=1_000, ge=0, le=20_000)
    """Token budget for the names of servers, tools and arguments in our tools' descriptions. So a short task needs no
    search. Fixed by a session's first call. 0 lists nothing. Claude Code cuts what is much longer than the default."""


def is_folder(model: str) -> bool:
    """True if `search.model` is a folder; names on the hub have a slash too."""
    return model.startswith(("/", "./", "../", "~"))


class TypeSettings(Section):
    """Types of results, and the check of programs before they run."""

    learn: bool = True
    """Learn the types of results from calls, for tools that do not declare one. They are kinds and names of fields,
    shown in stubs and search results, never values. Stored between runs, unless `state.payloads` is `none`."""
    check: Literal["errors", "warnings", "none"] = "errors"
    """How programs are checked against the tools before they run. `errors`: a program that is certain to fail is
    refused, with the line and the correction; `warnings`: it runs, and its result comes with the findings; `none`: no
    check."""


class ResultSettings(Section):
    """The form in which the host gets results."""

    read_at_start = None

    savings: bool = False
    """End each answer to a program with a line on what it saved, such as `[saved ≈12,300 tokens]`. The line is for you
    and costs about ten tokens; `codemode-server stats` shows the same numbers whether it is on or off."""

    structured_content: bool = False
    """Send each result as `structuredContent` as well, for software that reads results. Each tool then lists an
    `outputSchema`. Many hosts then show their model that JSON in place of the text, or both, and some drop images."""


class RunningServerSettings(Section):
    """The running server that your hosts share (`serve` over stdio, not on Windows)."""

    idle_minutes: Number = Field(default=10, ge=0, le=1_440)
    """How long it stays after the last host has gone and the last program has ended, minutes. 0: it ends at once."""


class StateSettings(Section):
    """Contents, location and retention of stored data."""

    read_at_start = ("dir", "key", "database", "database_password", "skills", "workflows")

    dir: str | None = None
    """Folder of the database, workspaces, stored results and logs; relative to the configuration file. It must
    belong to you, and nobody else may be able to write to a folder above it. Default: the user's data folder."""
    key: Annotated[str | None, Holds.SECRET] = Field(default=None, repr=False)
    """Secret that replicas share (`${CODEMODE_KEY}`), from which their keys are derived, so that they read each other's
    records and go on with each other's questions. It has at least 32 random characters; what was encrypted under
    another one can't be read. Default: keys of its own, in files of the state folder."""
    database: str | None = Field(default=None, max_length=2_000)
    """PostgreSQL in place of SQLite, `postgresql://USER@HOST/NAME`. Nothing else may use the database; replicas may
    share it. Parameters of libpq follow `?`, for instance `sslmode=verify-full`. Needs the extra `postgres`."""
    database_password: Annotated[str | None, Holds.SECRET] = Field(default=None, repr=False)
    """Its password, such as `${keyring:database}`."""
    payloads: Literal["all", "shapes", "none"] = "shapes"
    """Detail of arguments and results in the audit and traces: everything, only types and sizes, or nothing.
    The pages, which only you see, show all that the journal has."""
    kept_mb: Number = Field(default=256, ge=0, le=65_536)
    """Space for the stored results of all sessions together, MiB (`limits.kept_mb` is for one session). They are
    private files, which are removed when codemode-server ends."""
    record_days: Number = Field(default=90, ge=0, le=36_500)
    """How long the audit of executions and their calls stays in the database, days. 0: forever."""
    record_mb: Number = Field(default=256, ge=0, le=1_048_576)
    """How much the audit may take in the database, MiB; beyond it the oldest rows are deleted. 0: no limit."""
    journal_hours: Number = Field(default=168, ge=0, le=876_000)
    """Hours for which the journal has complete arguments and results of calls after their execution has ended. They
    are encrypted there, with the key in `journal.key` beside the database. 0: until `journal_mb` is reached."""
    journal_mb: Number = Field(default=256, ge=1, le=1_048_576)
    """How much the journal may take in the database, MiB; beyond it the oldest values are removed. One execution takes
    at most a quarter; beyond that its calls are stored without arguments and results."""
    session_days: Number = Field(default=30, ge=0, le=36_500)
    """How long the logs of sessions stay in `/workspace/sessions`, days. They tell later sessions what programs
    did: program, result and output, without secrets, also where `payloads` is `none`. 0: no logs are written."""
    skills: str = "skills"
    """Folder of saved programs, importable as `skills.<name>`; relative to the configuration file."""
    workflows: str = "workflows"
    """Folder of workflows, YAML files that are importable as `workflows.<name>`; relative to the configuration file."""

    @field_validator("key")
    @classmethod
    def _key_is_long(cls, key: str | None) -> str | None:
        if key is not None and len(key) < MIN_KEY_CHARACTERS and "${" not in key:
            raise ValueError(
                f"must have at least {MIN_KEY_CHARACTERS} characters, such as `openssl rand -hex 32` gives"
            )
        return key

    @field_validator("database")
    @classmethod
    def _database_is_an_address(cls, address: str | None) -> str | None:
        try:
            parts = urlsplit(address or "postgresql://this/default")
            is_address = parts.scheme == "postgresql" and len(parts.path) > 1 and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise ValueError("is not of the form `postgresql://USER@HOST/NAME`")
        if parts.password is not None or "password=" in parts.query:
            raise ValueError("may hold no password; set `database_password`, for instance to `${keyring:database}`")
        return address


class Settings(Section):
    """All of `upstream.yaml`."""

    servers: dict[Annotated[str, Field(pattern=SERVER_NAME)], ServerSettings] = Field(default={})
    """The upstream MCP servers by name; the name becomes the Python package `servers.<name>`."""
    env: Environment = Field(default={}, repr=False)
    """Environment of all servers that are processes, such as proxies and certificates. The `env` of a server
    overrides it. One that refers to a variable that is not set is left out."""
    principal: PrincipalName | None = None
    """Name of the principal that uses this server: the owner of its workspace, stored results, approvals and records.
    The variable `CODEMODE_PRINCIPAL` overrides it. Default: `default`."""
    groups: dict[PrincipalName, tuple[PrincipalName, ...]] = Field(default={})
    """Groups of principals by name, for `principals: [group:<name>]` in a rule of the permissions."""
    server: RunningServerSettings = RunningServerSettings()
    http: HttpSettings = HttpSettings()
    sandbox: SandboxSettings = SandboxSettings()
    permissions: PermissionSettings = PermissionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    limits: LimitSettings = LimitSettings()
    search: SearchSettings = SearchSettings()
    types: TypeSettings = TypeSettings()
    results: ResultSettings = ResultSettings()
    state: StateSettings = StateSettings()


def _with_features(core: type[Section]) -> type[BaseModel]:
    """The model with the sections of all features (`FeatureSettings.of`), each behind the one that it names."""
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in core.model_fields.items()}
    for feature in FEATURES:
        for section in feature.sections:
            model = getattr(import_module(f"{feature.package}.settings"), section.model)
            names = list(fields)
            at = names.index(section.after) + 1 if section.after in names else len(names)
            value = (model, model()) if isinstance(model, type) else model
            fields = dict([*list(fields.items())[:at], (section.key, value), *list(fields.items())[at:]])
    return create_model("Settings", __base__=Section, __module__=__name__, __doc__=core.__doc__, **fields)


if not TYPE_CHECKING:
    Settings = _with_features(Settings)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `upstream.yaml`, for editors. It accepts more than the settings do, as the file may: a
    variable in place of a number, a number in place of text."""
    schema = Settings.model_json_schema()
    models = {model.__name__: model for model in _models(Settings)}
    for name, definition in [("Settings", schema), *schema["$defs"].items()]:
        for field, documentation in _field_documentation(models[name]).items():
            written = models[name].model_fields[field].alias or field
            if written in definition["properties"]:
                definition["properties"][written].setdefault("description", documentation)
        definition.pop("title", None)
        properties: dict[str, Any] = definition["properties"]
        definition["properties"] = {name: _as_written(field, schema["$defs"]) for name, field in properties.items()}
    server = schema["$defs"]["ServerSettings"]
    server["oneOf"] = [{"required": [spec.selector]} for spec in transports.transports()]
    schema["$defs"]["PermissionRule"]["oneOf"] = [{"required": [name]} for name in ("allow", "deny", "ask")]
    schema["properties"]["servers"]["anyOf"][0]["additionalProperties"] = False
    schema["properties"]["mcpServers"] = {
        "description": "Servers in the format of hosts; a host's configuration can be pasted here.",
        "type": "object",
        "additionalProperties": {"type": "object"},
    }
    schema["patternProperties"] = {"^(x-.*|\\$schema)$": {"description": "Ignored; for YAML anchors."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "upstream.yaml of codemode-server",
        **schema,
    }


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    from typing import get_args

    yield model
    kinds: list[Any] = [field.annotation for field in model.model_fields.values()]
    while kinds:
        kind = kinds.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _models(kind)
        else:
            kinds += get_args(kind)


def _field_documentation(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings under the fields of a model and of its base classes, by field."""
    import ast
    import inspect
    import textwrap
    from itertools import pairwise

    found: dict[str, str] = {}
    for written in model.__mro__:
        if not issubclass(written, Section):
            continue
        source = textwrap.dedent(inspect.getsource(written))
        body = next(node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
        found |= {
            field.target.id: inspect.cleandoc(text.value.value).replace("\n", " ")
            for field, text in pairwise(body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if field.target.id in written.model_fields
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        }
    return found


def _as_written(field: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one field, for the values that the file may contain."""
    about: dict[str, Any] = {key: field[key] for key in ("description", "default") if key in field}
    if "$ref" in field:
        about = {"description": definitions[field["$ref"].rpartition("/")[2]]["description"]} | about
        about.pop("default", None)
    kind: dict[str, Any] = {key: value for key, value in field.items() if key not in ("title", *about)}
    text = {"type": ["string", "number", "boolean"]}
    if kind.get("type") in ("number", "integer", "boolean") or "enum" in kind:
        return {**about, "anyOf": [kind, {"type": "string", "pattern": r"\$\{"}]}
    if kind.get("additionalProperties") == {"type": "string"}:
        kind["additionalProperties"] = text
    elif kind.get("items") == {"type": "string"}:
        kind["items"] = text
    if "$ref" in kind or kind.get("type") in ("object", "array"):  # nothing after the colon leaves the default
        return {**about, "anyOf": [kind, {"type": "null"}]}
    return {**about, **kind}
