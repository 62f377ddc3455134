"""Exports spans of the other stages to an OTLP collector or Langfuse, if one is configured.

It hooks in as subscribers of calls (`call_tracing`, `call_metrics`) and a layer of executions (`execution_telemetry`).

The stages use only OpenTelemetry's API; without an exporter their spans cost almost nothing. A failure here never
affects a call.
"""
