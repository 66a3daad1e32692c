"""Observability of a process: metrics, health and logs.

``metric_definitions`` lists all metrics and ``metrics`` creates those of one process. ``health`` keeps liveness and
readiness and serves /metrics, /healthz and /readyz. ``logs`` formats logs without raw values and limits
repeated lines, and ``progress`` shows the progress of commands. To add a metric, add its definition and set it by name
through ``Metrics``.
"""
