"""The values that all stages share: identifiers, principals, tools, calls, executions and errors. No I/O."""
