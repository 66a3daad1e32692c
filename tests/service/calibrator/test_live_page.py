"""The live page: what it shows, what it hides, and that it loads nothing from anywhere."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from alerts import Thresholds
from page_figures import LEAST, NAMES, content, version
from prometheus_client import CollectorRegistry
from support.small_configuration import small_configuration
from verdicts import CORRELATION_CHANGED

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.service.calibrator.page import LivePage
from stream_masker.service.calibrator.page.charts import Line, version_chart
from stream_masker.service.calibrator.page.document import PageContent, document
from stream_masker.service.calibrator.page.figures import (
    MAX_CORRELATION_ERROR,
    MAX_UNCHANGED,
    AttributeRiskFigures,
    verdict,
)
from stream_masker.service.calibrator.page.live import KEPT_VERSIONS
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.observability.health import Health, HttpServer

RISK = AttributeRiskFigures(prior=0.1, vulnerability=0.4, given_record=0.45, certain=0.0, unchanged=0.3, certainty=0.5)
VOID = {"meta", "circle", "line", "polyline", "br"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects ids, links, loaded addresses and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.loaded += [value for name, value in attributes if name in ("src", "srcset", "action") or name[:2] == "on"]
        self.loaded += [tag] if tag in ("script", "link", "img", "iframe", "object", "form") else []

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    assert found.open == []
    return found


def configuration(**changes: object) -> Configuration:
    kafka = {"properties": {"sasl.password": "hunter2-of-the-broker"}}
    return parse_configuration(
        small_configuration(*NAMES, **{"kafka": kafka, "mechanism": {"reference": "mean"}, **changes})
    )


def test_page_is_whole_and_loads_nothing() -> None:
    found = outline(document(content()))
    assert found.loaded == []
    assert len(set(found.ids)) == len(found.ids)
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert not re.search(r"https?://", document(content()))


def test_the_head_has_the_mechanism_its_promise_a_rate_and_a_verdict() -> None:
    moments = iter((1.0, 30.0, 80.0, 80.0, 200.0))
    page = LivePage(configuration(), clock=lambda: next(moments))
    page.show(replace(version(2), crossed=("21% of the values of principal are guessed",)))
    for _ in range(3):
        page.count(600)
    head = outline(page.html("")).text
    assert "Mechanism: semantic_noise" in head
    assert f"Its promise: {SemanticNoise.method_card.guarantee}." in head
    assert "20 records/s in the last minute" in head
    assert "Protected: no" in head
    assert "21% of the values of principal are guessed" in head
    assert "Meaning kept: yes" in head
    assert "0 records/s" in page.html("")


@pytest.mark.parametrize(
    ("mechanism", "promise"),
    [
        ({"name": "semantic_transport"}, ("more than 0.5 from", "fewer patients than 2.")),
        ({"name": "semantic_transport", "certainty": 0.3, "least": 5}, ("more than 0.3", "than 5.")),
    ],
)
def test_the_promise_has_the_values_of_its_parameters(mechanism: dict[str, object], promise: tuple[str, ...]) -> None:
    page = LivePage(configuration(mechanism=mechanism))
    _, head = outline(page.html("")).text.split("Its promise: ", 1)
    assert [part in head for part in promise] == [True, True]


def test_a_verdict_that_is_not_known_yet_says_so() -> None:
    head = outline(document(PageContent((replace(version(1), risk={}),), "", 20, (), ()))).text
    assert "Protected: not known yet" in head
    assert "Meaning kept: not known yet" in head


@pytest.mark.parametrize(
    ("figures", "protected", "kept"),
    [
        (RISK, True, True),
        (replace(RISK, certainty=None), None, True),
        (replace(RISK, unchanged=0.61), False, True),
        (replace(RISK, unchanged=0.9, prior=0.9), True, True),
    ],
)
def test_the_verdict_follows_from_the_limits_of_the_alerts(
    figures: AttributeRiskFigures, protected: bool | None, kept: bool
) -> None:
    one, other = verdict(replace(version(2), risk={"principal": figures}))
    assert (one.yes, other.yes) == (protected, kept)
    assert str(MAX_UNCHANGED) == Thresholds().unchanged
    assert MAX_CORRELATION_ERROR == CORRELATION_CHANGED


def test_a_method_without_a_promise_protects_on_average_only() -> None:
    latest = replace(version(2), risk={"principal": replace(RISK, certainty=None)}, sentences=("one", "two", "three"))
    text = outline(document(PageContent((latest,), "", 20, (), ()))).text
    assert "Protected: on average only" in text
    assert "nothing is promised about single records" in text
    assert "onetwothree" in text


def test_crossed_limits_and_changed_correlations_are_reasons() -> None:
    good = replace(version(2), risk={"principal": RISK})
    protected, _ = verdict(replace(good, crossed=("a limit",)))
    assert (protected.yes, protected.reasons) == (False, ("a limit",))
    lost = replace(good.windows["masked"], correlation={NAMES[:2]: 0.1})
    _, kept = verdict(replace(good, windows={**good.windows, "masked": lost}))
    assert (kept.yes, kept.reasons) == (False, ("sdCor of principal and secondary is 0.10 instead of 0.59",))


def test_a_page_that_stands_by_says_who_is_active() -> None:
    page = LivePage(configuration(), find_active=lambda: "10.0.0.7")
    assert "The active calibrator is at 10.0.0.7." in outline(page.html("")).text


def test_the_configuration_is_folded() -> None:
    assert "<details open" not in document(content())


def test_page_shows_all_figures() -> None:
    text = outline(document(content())).text
    for part in (
        "Statistics version 12 from blocks",
        "I10",
        "Essential (primary) hypertension",
        "0.1580",
        "0.730",
        "0.210",
    ):
        assert part in text, part
    assert "principal, secondary: masked" in text
    assert "procedure: against baseline" in text


def test_figures_of_every_version_are_in_the_tables() -> None:
    html = document(content(3))
    assert re.findall(r'<th scope="row">(v\d+)</th>', html) == ["v3", "v2", "v1"] * 2


def test_few_records_are_not_counted_and_a_hidden_mean_is_not_named() -> None:
    few = replace(content(1), versions=(replace(version(2), records=LEAST - 1),))
    text = outline(document(few)).text
    assert f"fewer than {LEAST} records" in text
    assert f", {LEAST - 1} records" not in text
    assert f"not shown: fewer than {LEAST} records in its class" in text


def test_texts_are_escaped() -> None:
    evil = '<script>alert("1")</script>'
    one = version(2)
    named = replace(one.windows["original"], mean={name: LabelledConcept(evil, evil) for name in NAMES})
    versions = (replace(one, windows={**one.windows, "original": named}, crossed=(evil,)),)
    html = document(replace(content(), versions=versions, configuration=evil, notes=(evil,), reasons=(evil,)))
    assert evil not in html
    assert outline(html).loaded == []


def test_configuration_is_redacted() -> None:
    page = LivePage(configuration())
    html = page.html("")
    assert "hunter2" not in html
    assert "sasl.password" in html
    page.configure(configuration(calibration={"every_records": 4321}))
    assert "4321" in page.html("")


def test_page_refreshes_only_on_request() -> None:
    page = LivePage(configuration())
    assert "http-equiv" not in page.html("")
    assert 'content="30"' in page.html("refresh=30")
    assert "http-equiv" not in page.html('refresh="><script>')


def test_page_keeps_the_last_versions_once() -> None:
    page = LivePage(configuration())
    assert "No statistics" not in page.html("")
    for number in range(1, KEPT_VERSIONS + 3):
        page.show(version(number))
        page.show(version(number))
    rows = re.findall(r'<th scope="row">v(\d+)</th>', page.html(""))
    assert [int(row) for row in rows] == [*range(KEPT_VERSIONS + 2, 2, -1)] * 2


def test_the_risk_of_the_last_version_is_added_later() -> None:
    page = LivePage(configuration())
    page.show(replace(version(2), risk={}))
    page.replace_last(replace(version(1), records=77_777))
    assert "77,777" not in page.html("")
    assert "Best guess without masks" not in page.html("")
    page.replace_last(version(2))
    assert "Best guess without masks" in page.html("")


def test_line_is_interrupted_where_a_version_has_no_figure() -> None:
    chart = version_chart("x", [1, 2, 3, 4, 5], [Line("a", [0.1, 0.2, None, 0.3, None], 0)])
    assert chart.count("<polyline") == 1
    assert chart.count("<circle") == 1


@pytest.mark.parametrize("versions", [1, 2])
def test_page_of_few_versions_is_whole(versions: int) -> None:
    found = outline(document(content(versions)))
    assert found.loaded == []
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)


def test_page_refreshes_itself_until_it_is_stopped() -> None:
    page = LivePage(configuration())
    assert "/?refresh=30" in outline(page.html("")).links
    assert "/" in outline(page.html("refresh=30")).links


def test_server_serves_the_page_with_a_policy_that_forbids_scripts() -> None:
    page = LivePage(configuration(), health := Health())
    page.show(version(2))
    registry = CollectorRegistry()
    with (
        HttpServer(host="127.0.0.1", port=0, health=health, registry=registry, pages={"/": page.html}) as server,
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/?refresh=30") as response,
    ):
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "script-src" not in response.headers["Content-Security-Policy"]
        assert "version 2" in response.read().decode()
