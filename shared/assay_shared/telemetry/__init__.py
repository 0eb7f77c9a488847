"""Telemetry: ids of requests and work, logs, traces and metrics."""
