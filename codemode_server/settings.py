"""The typed settings of one codemode-server, as `upstream.yaml` has them; read once, passed down, never global.

`config` finds and reads the file; this module says what may stand in it. The docstring under each field is its
documentation, and goes into the JSON Schema for editors.

No message of a validator holds the value it is about: that may be a secret. Nor does the `repr` of the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from codemode_server.sandbox import registry as sandboxes
from codemode_server.setting_types import Glob, Number, Seconds, Section, checked_address, checked_glob
from codemode_server.upstreams.transports import registry as transports

SERVER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


if TYPE_CHECKING:
    from codemode_server.upstreams.transports.registry import ServerSettings as ServerSettings
    from codemode_server.upstreams.transports.registry import ToolFilter as ToolFilter
else:
    ServerSettings, ToolFilter = transports.settings_model(), transports.ToolFilter
if TYPE_CHECKING:
    from codemode_server.sandbox.registry import SandboxSettings as SandboxSettings
else:
    SandboxSettings = sandboxes.settings_model()


class PermissionRule(Section):
    """One rule: exactly one of `allow`, `deny`, `ask`, each a glob `server/tool` (or `server`, for all its tools)."""

    allow: Glob | None = None
    """Calls that match go through."""
    deny: Glob | None = None
    """Calls that match are refused."""
    ask: Glob | None = None
    """Calls that match need a person's approval; not there yet, so they are refused, saying so."""
    reason: str | None = Field(default=None, max_length=300)
    """Told to the program when the rule refuses a call."""

    @field_validator("allow", "deny", "ask")
    @classmethod
    def _glob_is_whole(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if pattern.startswith("/") or pattern.endswith("/") or pattern.count("/") > 1:
            raise ValueError("is not of the form `server/tool` or `server`")
        return checked_glob(pattern)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("allow", "deny", "ask") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of `allow`, `deny`, `ask`")
        return self

    @property
    def pattern(self) -> str:
        return self.allow or self.deny or self.ask or ""

    @property
    def answer(self) -> Literal["allow", "deny", "ask"]:
        return "allow" if self.allow else "deny" if self.deny else "ask"


class PermissionSettings(Section):
    """What programs may call. The first rule that matches decides; the model has no say in it."""

    default: Literal["allow", "deny", "ask"] = "allow"
    """For calls that no rule matches."""
    rules: tuple[PermissionRule, ...] = ()
    """In order; names are matched as the server has them and as Python has them. The reading of a resource that a
    result links to is judged as `server/read_resource`."""


class LimitSettings(Section):
    """What one program may use. Past one of these it ends with an error that names it; the next program is unharmed."""

    wall_seconds: Seconds = 60.0
    """Time of the program itself: all of it during which no call is on its way to an upstream."""
    upstream_seconds: Seconds = 600.0
    """Time during which at least one call is on its way; counted apart from `wall_seconds`. Also the longest that one
    call may take, however much progress its server reports (`servers.<name>.timeout` bounds its silence)."""
    memory_mb: Number = Field(default=256, ge=64, le=4096)
    """Memory of the program, MiB."""
    output_bytes: Number = Field(default=8 * 2**20, ge=1024)
    """What is shown of what a program prints, stdout and stderr together, bytes; more is kept for later programs. One
    that prints more than this and than `call_bytes` is ended."""
    output_tokens: Number = Field(default=6_000, ge=100)
    """What reaches the model of the value, stdout, stderr and shown text, tokens altogether. Shortens, ends nothing: of
    a value the first items and all keys are left, of printed text the first and last lines, and the whole is kept."""
    shown_files: Number = Field(default=8, ge=0, le=64)
    """Images, sounds and files that one program can show to the model (`codemode.show`); of more, the model gets a
    link."""
    shown_bytes: Number = Field(default=768 * 2**10, ge=0, le=16 * 2**20)
    """Size of them altogether as they are sent (in base64), bytes; hosts take no more than 1 MB in all."""
    kept_mb: Number = Field(default=64, ge=0, le=4_096)
    """What one session keeps of its programs' values, output and shown files for later programs, MiB; the oldest goes
    first. 0 keeps nothing."""
    calls: Number = Field(default=1_000, ge=0)
    """Calls that one program may make. The next one raises `LimitExceeded`, which the program can catch once, to return
    what it has."""
    calls_in_flight: Number = Field(default=16, ge=1, le=256)
    """Calls of one program on their way at once; more wait for their turn."""
    call_bytes: Number = Field(default=16 * 2**20, ge=1024, le=256 * 2**20)
    """Size of one call's arguments, and of its result, as JSON, bytes; either has at most 500,000 values as well."""
    value_bytes: Number = Field(default=4 * 2**20, ge=1024, le=64 * 2**20)
    """What is shown of the value that a program returns, as JSON, bytes; more is kept for later programs. One that
    returns more than this and than `call_bytes`, or more than 500,000 values, is ended."""
    programs: Number = Field(default=4, ge=1, le=64)
    """Programs that run at once; more wait for `queue_seconds`. Over HTTP, where several sessions run programs, none
    takes the last place while it has another, so that no session holds up the rest."""
    queue_seconds: Seconds = 30.0
    """How long a program waits for its turn before it is refused."""
    workspace_mb: Number = Field(default=256, ge=1)
    """Files under /workspace, MiB; and, counted by themselves, under /tmp. A program that passes it is ended, and what
    it added to /workspace beyond it is removed. Deleting works however much there is."""


class LangfuseSettings(Section):
    """Where traces go if Langfuse is used; the usual LANGFUSE_* environment variables do as well."""

    public_key: str | None = Field(default=None, repr=False)
    """`pk-lf-…`; default: `LANGFUSE_PUBLIC_KEY`."""
    secret_key: str | None = Field(default=None, repr=False)
    """`sk-lf-…`; default: `LANGFUSE_SECRET_KEY`."""
    base_url: str | None = Field(default=None, repr=False)
    """Default: `LANGFUSE_BASE_URL`, else Langfuse's cloud."""


class TracingSettings(Section):
    """OpenTelemetry spans of each program and each call. What they hold of payloads is `state.payloads`."""

    otlp_endpoint: str | None = Field(default=None, repr=False)
    """Address of an OTLP/HTTP collector's traces, for instance `http://127.0.0.1:4318/v1/traces`."""
    langfuse: LangfuseSettings = LangfuseSettings()
    """Used when its keys are set; needs the extra `langfuse`."""
    service_name: str = "codemode-server"
    """`service.name` of the spans."""


class EndpointSettings(Section):
    """An encoder elsewhere, behind an OpenAI-compatible address. It is sent the descriptions of all tools, and every
    query."""

    url: str = Field(repr=False, max_length=2_000)
    """Address, for instance `http://127.0.0.1:11434/v1`; `/embeddings` may be left out."""
    model: str = Field(min_length=1, max_length=200)
    """Name of the model there."""
    api_key: str | None = Field(default=None, repr=False, max_length=4_096)
    """Sent as `Authorization: Bearer …`; write `${VAR}`."""
    dimensions: Number | None = Field(default=None, ge=8, le=16_384)
    """Size of the vectors to ask for, of models that have several."""
    batch: Number = Field(default=32, ge=1, le=2_048)
    """Texts in one request."""
    timeout: Seconds = 30.0
    """Seconds for one request. A search waits 5 at most, and is ranked without it then."""

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, url: str) -> str:
        return checked_address(url)

    @field_validator("api_key")
    @classmethod
    def _key_can_be_sent(cls, key: str | None) -> str | None:
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError("holds characters that an HTTP header can't")
        return key


class SearchSettings(Section):
    """How `search_tools` ranks."""

    ranker: Literal["auto", "lexical", "static", "semantic"] = "auto"
    """`lexical` ranks by words; `static` adds a small table of what words mean; `semantic` adds a model. `auto` takes
    the best that is on this machine and downloads nothing, while `semantic` lets a missing model be downloaded. Until a
    ranker is ready, and where it can't be had, the one below it answers; `codemode-server status` tells which does."""
    model: str = Field(default="all-MiniLM-L6-v2", min_length=1, max_length=500)
    """Model of `semantic`: a name on the Hugging Face hub, or a folder (`./models/…`, relative to the configuration
    file)."""
    query_prompt: str | None = Field(default=None, max_length=2_000)
    """Put before each query; default: what the model itself says, for instance `query: `."""
    document_prompt: str | None = Field(default=None, max_length=2_000)
    """Put before the description of each tool; default: what the model itself says."""
    endpoint: EndpointSettings | None = None
    """In place of a model on this machine."""
    habits: bool = True
    """Let the tools that programs call most come first among those that fit a query about as well. Kept between runs:
    names of tools and a number that fades within weeks; nothing of queries, arguments or results. `false` forgets
    them."""
    listed_tokens: Number = Field(default=600, ge=0, le=20_000)
    """How many tokens the list of tools may spend on the names of the servers and the signatures of some of their
    tools, most used first, so that a short task needs no search. Fixed when a session begins. 0 lists nothing. Claude
    Code cuts what is much longer than the default."""


def is_folder(model: str) -> bool:
    """Whether `search.model` is a folder; names on the hub have a slash too."""
    return model.startswith(("/", "./", "../", "~"))


class TypeSettings(Section):
    """What programs know of results before they call."""

    learn: bool = True
    """Learn from each call what its tool gives, for tools that don't declare it: kinds and names of fields, and the
    layout of texts, shown in stubs and search results. Kept between runs, unless `state.payloads` is `none`. Values are
    kept with `state.payloads: all` only: the words of a small set that recur, and the first line of a text."""
    check: Literal["errors", "warnings", "none"] = "errors"
    """Programs are checked against the tools before anything of them runs. `errors`: one that would surely fail is
    refused, with the line and what is right; `warnings`: it runs, and what is wrong is told beside the result; `none`:
    no check."""


class ResultSettings(Section):
    """The form in which the host gets results."""

    structured_content: bool = False
    """Send each result as `structuredContent` as well, and list an `outputSchema` with each tool: for programs that
    read results. Many hosts then show their model that JSON in place of the text, or both, and some drop images."""


class StateSettings(Section):
    """What is kept between runs, and where."""

    dir: str | None = None
    """Folder of the database, workspaces, stored results and logs; relative to the configuration file. It must be
    yours, and nobody else may be able to write to a folder above it. Default: the user's data folder."""
    customer: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """Name of the principal that uses this server: owner of its workspace, stored results and records."""
    payloads: Literal["all", "shapes", "none"] = "shapes"
    """What records and traces keep of arguments and results: everything, types and sizes only, or nothing."""
    kept_mb: Number = Field(default=256, ge=0, le=65_536)
    """What all sessions together keep of their programs' results, MiB (`limits.kept_mb` is for each). In private files,
    which are removed when the product ends."""
    record_days: Number = Field(default=90, ge=0, le=36_500)
    """How long the audit of executions and their calls stays in the database, days. 0: for ever."""
    record_mb: Number = Field(default=256, ge=0, le=1_048_576)
    """How much the audit may take in the database, MiB; beyond it the oldest rows are deleted. 0: no bound."""
    journal_hours: Number = Field(default=168, ge=0, le=876_000)
    """How long the complete arguments and results of calls stay in the journal after their execution has ended, hours;
    they are encrypted there, with the key in `journal.key` beside the database. 0: until `journal_mb` is reached."""
    journal_mb: Number = Field(default=256, ge=1, le=1_048_576)
    """How much the journal may take in the database, MiB; beyond it the oldest executions are deleted. One execution
    takes at most a quarter; of further calls it has no arguments and results."""
    on_damage: Literal["refuse", "set_aside"] = "refuse"
    """If the database is damaged: `refuse` serves nothing and says so, `set_aside` renames it and goes on with a new
    one. A full disk, a lock or a missing permission is no damage."""
    skills: str = "skills"
    """Folder of saved programs, importable as `skills.<name>`; relative to the configuration file."""


class Settings(Section):
    """All of `upstream.yaml`."""

    servers: dict[Annotated[str, Field(pattern=SERVER_NAME)], ServerSettings] = Field(default={})
    """The upstream MCP servers by name; the name becomes the Python package `servers.<name>`."""
    sandbox: SandboxSettings = SandboxSettings()
    permissions: PermissionSettings = PermissionSettings()
    limits: LimitSettings = LimitSettings()
    tracing: TracingSettings = TracingSettings()
    search: SearchSettings = SearchSettings()
    types: TypeSettings = TypeSettings()
    results: ResultSettings = ResultSettings()
    state: StateSettings = StateSettings()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `upstream.yaml`, for editors.

    Wider than the settings where the file is: a variable may stand for a number, a number for text.
    """
    schema = Settings.model_json_schema()
    models = {model.__name__: model for model in _models(Settings)}
    for name, definition in [("Settings", schema), *schema["$defs"].items()]:
        for field, documentation in _field_documentation(models[name]).items():
            if field in definition["properties"]:
                definition["properties"][field].setdefault("description", documentation)
        definition.pop("title", None)
        properties: dict[str, Any] = definition["properties"]
        definition["properties"] = {name: _as_written(field, schema["$defs"]) for name, field in properties.items()}
    server = schema["$defs"]["ServerSettings"]
    server["oneOf"] = [{"required": [spec.selector]} for spec in transports.transports() if spec.is_in_files]
    schema["$defs"]["PermissionRule"]["oneOf"] = [{"required": [name]} for name in ("allow", "deny", "ask")]
    schema["properties"]["servers"]["anyOf"][0]["additionalProperties"] = False
    schema["properties"]["mcpServers"] = {
        "description": "Servers in the form that hosts have them; a file of theirs can be pasted here.",
        "type": "object",
        "additionalProperties": {"type": "object"},
    }
    schema["patternProperties"] = {"^(x-.*|\\$schema)$": {"description": "Ignored; a place for YAML anchors."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "upstream.yaml of codemode-server",
        **schema,
    }


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model and those of its sections, at any depth."""
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
    """The docstrings under the fields of one model and of those that it extends, by field."""
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
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        }
    return found


def _as_written(field: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of one field as the file may have it."""
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
