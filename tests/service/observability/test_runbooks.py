"""The pages with the runbooks: one for each alert, with the text of the documentation."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from html import unescape

import pytest
from alerts import Thresholds, alerts
from prometheus_client import CollectorRegistry
from support.documentation import ROOT

from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.observability.runbooks import RUNBOOK_FOLDER, runbook_pages


def test_every_alert_has_a_page_with_its_section_of_the_documentation() -> None:
    _, *sections = re.split(r"^## ", (ROOT / "docs" / "kafka" / "alerts.md").read_text(), flags=re.MULTILINE)
    pages = runbook_pages()
    assert pages.keys() == {RUNBOOK_FOLDER + alert.full_name for alert in alerts(Thresholds())}
    for section in sections:
        name, _, text = section.partition("\n")
        shown = unescape(re.sub(r"<[^>]+>", "", pages[RUNBOOK_FOLDER + name]("").partition("<pre>")[2]))
        told = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("`", "")
        assert shown.split() == told.split()


def test_a_page_leads_to_the_pages_of_other_alerts() -> None:
    pages = runbook_pages()
    found = {path for page in pages.values() for path in re.findall(r'href="([^"]+)"', page(""))}
    assert found
    assert found <= pages.keys()


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("wards.example", 421)])
def test_pages_are_served_to_known_names_only(host: str, status: int) -> None:
    with HttpServer(
        host="127.0.0.1", port=0, health=Health(), registry=CollectorRegistry(), pages=runbook_pages()
    ) as server:
        address = f"http://127.0.0.1:{server.port}{RUNBOOK_FOLDER}StreamMaskerNoBroker"
        request = urllib.request.Request(address, headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            found, text = error.code, ""
    assert found == status
    assert ("<h1>StreamMaskerNoBroker</h1>" in text) == (status == 200)
