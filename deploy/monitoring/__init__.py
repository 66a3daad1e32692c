"""The sources of what watches stream-masker: dashboards for Grafana and alerts for Prometheus.

``queries`` builds PromQL from the metric definitions of the service, so that a renamed metric is an error here.
``panels`` builds panels, ``dashboards`` lists all dashboards, and ``alerts`` lists all alerts with their runbooks.
``deploy/generate.py`` writes the files.
"""
