"""Observability of a process: metrics, health and logs.

``metrics`` declares every metric once, and keeps liveness and readiness. ``http`` serves both: /metrics,
/healthz, /readyz and one page of text. ``logs`` formats logs without raw values and limits repeated lines; ``progress``
shows the progress of commands. To add a metric, add its declaration and set it by name through ``Metrics``.
"""
