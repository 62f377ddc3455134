"""The typed settings of one codemode-server, as `upstream.yaml` has them; read once, passed down, never global.

`config_file` finds and reads the file; this module says what may stand in it. The docstring under each field is its
documentation, and goes into the JSON Schema for editors.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Glob = Annotated[str, Field(min_length=1, max_length=200)]
SERVER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ToolFilter(_Section):
    """Which of a server's tools exist for programs and searches at all."""

    include: tuple[Glob, ...] = ("*",)
    """Globs over the server's own tool names; a tool that matches none does not exist."""
    exclude: tuple[Glob, ...] = ()
    """Globs taken away from what `include` lets in."""

    @field_validator("include", "exclude")
    @classmethod
    def _globs_are_whole(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_checked_glob(pattern) for pattern in patterns)


class ServerSettings(_Section):
    """One upstream MCP server: either `command` (a process over stdio) or `url` (over HTTP)."""

    command: str | None = None
    """The program to start; the server then speaks over its stdin and stdout."""
    args: tuple[str, ...] = ()
    """Arguments of `command`."""
    env: dict[str, str] = {}
    """Environment of `command`, beside the few variables that are always passed (PATH, HOME, USER …)."""
    cwd: str | None = None
    """Working directory of `command`; relative to the configuration file."""
    url: str | None = None
    """Address of a server that runs already."""
    transport: Literal["http", "sse"] = "http"
    """With `url`: `http` is streamable HTTP, `sse` the older HTTP+SSE."""
    headers: dict[str, str] = {}
    """With `url`: HTTP headers sent with each request, for instance `Authorization`."""
    protocol: Literal["auto", "legacy"] = "auto"
    """`legacy` keeps to the initialize handshake; `auto` tries the newer one first and remembers what works."""
    enabled: bool = True
    """`false`: the server is listed as disabled, and nothing of it is started."""
    timeout: Seconds = 60.0
    """Seconds that one call may take."""
    tools: ToolFilter = ToolFilter()
    """Which of its tools to offer."""
    description: str | None = Field(default=None, max_length=500)
    """One line for the model on what the server is for; default: what the server says of itself."""

    @model_validator(mode="after")
    def _either_process_or_address(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` (a program to start) or `url` (a server that runs already)")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("`url` begins with http:// or https://")
        only = "command" if self.command is not None else "url"
        strangers = {"command": ("headers",), "url": ("args", "env", "cwd")}[only]
        for name in strangers:
            if getattr(self, name):
                raise ValueError(f"`{name}` has no meaning beside `{only}`")
        return self


class SandboxSettings(_Section):
    """Where programs run. Nothing ever runs outside a sandbox."""

    backend: Literal["auto", "wasm"] = "auto"
    """`auto` takes the strongest that works here; `wasm` is CPython inside WebAssembly, which works everywhere."""
    warm: int = Field(default=1, ge=0, le=16)
    """Sandboxes kept ready, each used for one program (about 45 MB each)."""


class PermissionRule(_Section):
    """One rule: exactly one of `allow`, `deny`, `ask`, each a glob `server/tool` (or `server`, for all its tools)."""

    allow: Glob | None = None
    """Calls that match go through."""
    deny: Glob | None = None
    """Calls that match are refused."""
    ask: Glob | None = None
    """Calls that match need a person's approval; not there yet, so they are refused, saying so."""
    reason: str | None = Field(default=None, max_length=300)
    """Told to the program when the rule refuses a call."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("allow", "deny", "ask") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of `allow`, `deny`, `ask`")
        _checked_glob(self.pattern)
        return self

    @property
    def pattern(self) -> str:
        return self.allow or self.deny or self.ask or ""

    @property
    def answer(self) -> Literal["allow", "deny", "ask"]:
        return "allow" if self.allow else "deny" if self.deny else "ask"


class PermissionSettings(_Section):
    """What programs may call. The first rule that matches decides; the model has no say in it."""

    default: Literal["allow", "deny", "ask"] = "allow"
    """For calls that no rule matches."""
    rules: tuple[PermissionRule, ...] = ()
    """In order; names are matched as the server has them and as Python has them."""


class LimitSettings(_Section):
    """What one program may use. Past one of these it ends with an error that names it; the next program is unharmed."""

    wall_seconds: Seconds = 60.0
    """Time of the program itself: all of it during which no call is on its way to an upstream."""
    upstream_seconds: Seconds = 150.0
    """Time during which at least one call is on its way; counted apart from `wall_seconds`."""
    memory_mb: int = Field(default=256, ge=64, le=4096)
    """Memory of the program, MiB."""
    output_bytes: int = Field(default=8 * 2**20, ge=1024)
    """What a program may print, stdout and stderr together, bytes."""
    output_tokens: int = Field(default=6_000, ge=100)
    """What reaches the model of stdout, stderr and the value, tokens each; the middle is left out. Shortens, ends nothing."""
    calls: int = Field(default=1_000, ge=0)
    """Calls that one program may make."""
    calls_in_flight: int = Field(default=16, ge=1, le=256)
    """Calls of one program on their way at once; more wait for their turn."""
    call_bytes: int = Field(default=16 * 2**20, ge=1024, le=256 * 2**20)
    """Size of one call's arguments, and of its result, as JSON, bytes."""
    value_bytes: int = Field(default=4 * 2**20, ge=1024, le=64 * 2**20)
    """Size of the value a program returns, as JSON, bytes."""
    programs: int = Field(default=4, ge=1, le=64)
    """Programs that run at once; more wait for `queue_seconds`."""
    queue_seconds: Seconds = 30.0
    """How long a program waits for its turn before it is refused."""
    workspace_mb: int = Field(default=256, ge=1)
    """Files under /workspace, MiB; and, apart from them, under /tmp."""


class LangfuseSettings(_Section):
    """Where traces go if Langfuse is used; the usual LANGFUSE_* environment variables do as well."""

    public_key: str | None = None
    """`pk-lf-…`; default: `LANGFUSE_PUBLIC_KEY`."""
    secret_key: str | None = None
    """`sk-lf-…`; default: `LANGFUSE_SECRET_KEY`."""
    base_url: str | None = None
    """Default: `LANGFUSE_BASE_URL`, else Langfuse's cloud."""


class TracingSettings(_Section):
    """OpenTelemetry spans of each program and each call. What they hold of payloads is `state.payloads`."""

    otlp_endpoint: str | None = None
    """Address of an OTLP/HTTP collector's traces, for instance `http://127.0.0.1:4318/v1/traces`."""
    langfuse: LangfuseSettings = LangfuseSettings()
    """Used when its keys are set; needs the extra `langfuse`."""
    service_name: str = "codemode-server"
    """`service.name` of the spans."""


class SearchSettings(_Section):
    """How `search_tools` ranks."""

    ranker: Literal["auto", "lexical"] = "auto"
    """`lexical` ranks by words (BM25); `auto` takes the best there is, today the same."""


class StateSettings(_Section):
    """What is kept between runs, and where."""

    dir: str | None = None
    """Folder of the database and the workspaces; default: the user's data folder."""
    customer: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    """Whose workspace programs see as /workspace."""
    payloads: Literal["all", "shapes", "none"] = "shapes"
    """What records and traces keep of arguments and results: everything, types and sizes only, or nothing."""
    skills: str = "skills"
    """Folder of saved programs, importable as `skills.<name>`; relative to the configuration file."""


class Settings(_Section):
    """All of `upstream.yaml`."""

    servers: dict[Annotated[str, Field(pattern=SERVER_NAME)], ServerSettings] = {}
    """The upstream MCP servers by name; the name becomes the Python package `servers.<name>`."""
    sandbox: SandboxSettings = SandboxSettings()
    permissions: PermissionSettings = PermissionSettings()
    limits: LimitSettings = LimitSettings()
    tracing: TracingSettings = TracingSettings()
    search: SearchSettings = SearchSettings()
    state: StateSettings = StateSettings()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `upstream.yaml`, for editors."""
    schema = Settings.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "upstream.yaml of codemode-server",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _checked_glob(pattern: str) -> str:
    """Refuse what `fnmatch` would silently take literally: an unclosed bracket, white space, an empty part."""
    if pattern != pattern.strip() or any(character.isspace() for character in pattern):
        raise ValueError(f"glob {pattern!r} contains white space")
    if pattern.count("[") != pattern.count("]"):
        raise ValueError(f"glob {pattern!r} has an unclosed bracket")
    if pattern.startswith("/") or pattern.endswith("/") or "//" in pattern or pattern.count("/") > 1:
        raise ValueError(f"glob {pattern!r} is not of the form server/tool")
    return pattern
