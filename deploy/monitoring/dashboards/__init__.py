"""All dashboards.

Figures of a window come from the active calibrator. ``max`` joins the series of several calibrators, because the ones
that stand by have none.
"""

from dashboards.calibrator import CALIBRATOR
from dashboards.drift import DRIFT
from dashboards.model import Dashboard, dashboard_json
from dashboards.overview import OVERVIEW
from dashboards.processes import PROCESSES
from dashboards.protection import PROTECTION
from dashboards.records import RECORDS
from dashboards.semantics import SEMANTICS

DASHBOARDS = (OVERVIEW, RECORDS, PROCESSES, SEMANTICS, DRIFT, PROTECTION, CALIBRATOR)

__all__ = ["DASHBOARDS", "Dashboard", "dashboard_json"]
