"""Guardrails: validators that the person installs. They pass, change, ask about or block programs, calls and results.

They hook in as a layer of calls (`call_layer`) and a layer of executions (`guarded_programs`).

This is the public interface for authors. A guardrail is a class derived from `Guardrail`; it is named in
`guardrails:` of `upstream.yaml`. `codemode_server.features.guardrails.testing` has what a test of one needs.
"""

from codemode_server.features.guardrails.guardrail import (
    Ask,
    Block,
    CallVerdict,
    Change,
    GuardedCall,
    GuardedProgram,
    GuardedResult,
    Guardrail,
    NoSettings,
    Pass,
    ProgramResult,
    ResultVerdict,
)

__all__ = [
    "Ask",
    "Block",
    "CallVerdict",
    "Change",
    "GuardedCall",
    "GuardedProgram",
    "GuardedResult",
    "Guardrail",
    "NoSettings",
    "Pass",
    "ProgramResult",
    "ResultVerdict",
]
