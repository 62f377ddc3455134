"""Features: one folder each, which the product runs without. This module has the list of them, and is cheap to import:
the handshake is answered before any of them is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class FeatureSection:
    """A section of `upstream.yaml` that belongs to a feature."""

    key: str
    model: str
    """The class, or the annotated type, in the feature's `settings.py`."""
    after: str
    """The section behind which it is listed and documented."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What a feature adds to the product."""

    name: str
    """The name of its folder."""
    sections: tuple[FeatureSection, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    """Its commands and what `--help` says of each; they are in its `commands.py`."""
    provides: Mapping[str, str] = field(default_factory=dict)
    """What the wiring asks for by a name, each as `module:attribute` of the feature."""

    @property
    def package(self) -> str:
        return f"{__name__}.{self.name}"


FEATURES = (
    Feature(
        "approvals",
        commands={"approvals": "show the calls that wait for you, and approve or refuse them"},
        provides={
            "approver": "approver:person_approver",
            "question_text": "message:short_text",
            "write_answer": "patterns:write_answer",
            "status_lines": "commands:status_lines",
        },
    ),
    Feature(
        "changed_tools",
        commands={"tools": "show tools that changed since they were accepted, and accept them"},
        provides={"status_lines": "commands:status_lines"},
    ),
    Feature(
        "data_flow",
        commands={"sources": "show what sessions have read, or forget it"},
        provides={
            "files_sources": "commands:files_sources",
            "forget_files": "commands:forget_files",
            "report": "reports:SOURCES",
        },
    ),
    Feature("direct_tools", provides={"direct_tools": "tools:DirectTools", "status_lines": "tools:status_lines"}),
    Feature(
        "dry_run",
        provides={
            "dry_run_layer": "call_layer:DryRun",
            "dry_runs_layer": "dry_runs:DryRuns",
            "plan": "plan:Plan",
            "plan_report": "plan_report:plan_report",
        },
    ),
    Feature(
        "guardrails",
        (FeatureSection("guardrails", "Guardrails", after="approvals"),),
        provides={
            "guardrail_chain": "loading:guardrail_chain",
            "guardrail_layer": "call_layer:Guardrails",
            "guarded_values_layer": "call_layer:GuardedValues",
            "guarded_programs_layer": "guarded_programs:GuardedPrograms",
            "check": "loading:diagnosis",
        },
    ),
    Feature("learned_types", provides={"learning": "learning:Learning"}),
    Feature(
        "pages",
        commands={"ui": "open the pages in a browser"},
        provides={"approval_channel": "page_channel:PageChannel"},
    ),
    Feature(
        "privacy",
        (FeatureSection("privacy", "PrivacySettings", after="guardrails"),),
        {"privacy": "list privacy tokens, show what one stands for, or forget them"},
        {
            "check": "reports:diagnosis",
            "status_lines": "reports:status_lines",
            "tool_lines": "protection:protection_lines",
            "privacy": "call_privacy:call_privacy",
            "protected_listings": "protected_listings:ProtectedListings",
            "searched_files_layer": "shown_files:SearchedFiles",
            "token_reveals": "token_reveals:TokenReveals",
            "delete_old_rows": "token_store:delete_forgotten_tokens",
        },
    ),
    Feature("prompts", provides={"prompts": "prompts:Prompts"}),
    Feature(
        "resume",
        provides={
            "reruns": "reruns:Reruns",
            "departures_layer": "call_layer:Departures",
            "replay_layer": "call_layer:Replay",
            "rerun_remarks_layer": "reruns:RerunRemarks",
        },
    ),
    Feature(
        "savings",
        commands={"stats": "show the tokens that programs saved, by day, server or execution"},
        provides={
            "call_observer": "direct_tokens:OBSERVER",
            "exchanges": "exchanges:Exchanges",
            "savings": "savings_store:SavingsStore",
            "status_lines": "commands:status_lines",
            "delete_old_rows": "savings_store:delete_old_rows",
        },
    ),
    Feature("session_logs", provides={"session_logs": "session_log:SessionLogs"}),
    Feature("sign_in", provides={"sign_ins": "sign_in_offers:SignInOffers", "sign_in_layer": "call_layer:SignIn"}),
    Feature(
        "skills",
        (FeatureSection("skills", "SkillSettings", after="results"),),
        {"skills": "show the skills that programs saved, and accept or reject them"},
        {
            "skills": "library:skill_library",
            "program_skills": "program_skills:ProgramSkills",
            "report": "reports:SKILLS",
        },
    ),
    Feature(
        "telemetry",
        (
            FeatureSection("tracing", "TracingSettings", after="limits"),
            FeatureSection("metrics", "MetricSettings", after="tracing"),
        ),
        provides={
            "telemetry": "product_telemetry:Telemetry",
            "without_mcp_tracing": "settings:without_mcp_tracing",
        },
    ),
    Feature(
        "workflows",
        commands={"workflow": "list workflows, check them against the tools, or run one"},
        provides={"workflows": "compiling:Workflows"},
    ),
)
"""Every feature."""


def create(name: str, *arguments: Any, otherwise: Any = None) -> Any:
    """What the feature that provides this makes of the arguments; `otherwise` if there is none."""
    return next((it(*arguments) for it in provided(name)), otherwise)


def provided(name: str) -> list[Any]:
    """What features provide under this name; imports these features alone."""
    places = [(it.package, *it.provides[name].split(":")) for it in FEATURES if name in it.provides]
    return [getattr(import_module(f"{package}.{module}"), attribute) for package, module, attribute in places]
