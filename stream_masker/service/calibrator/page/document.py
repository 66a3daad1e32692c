"""The live page as one HTML document. Everything but numbers is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from stream_masker.pipeline.calibration.publication import LabelledConcept
from stream_masker.pipeline.calibration.versions import DataKind
from stream_masker.service.calibrator.page.charts import Line, bar, heat_map, table, version_chart
from stream_masker.service.calibrator.page.figures import (
    NOT_KNOWN_YET,
    Answer,
    AttributeRiskFigures,
    PairNames,
    VersionFigures,
    verdict,
)

DATA: tuple[DataKind, DataKind] = ("original", "masked")
PAGE_SECTIONS = {
    "mean": "Semantic mean",
    "sigma": "Σ",
    "protection": "Protection and utility",
    "correlation": "sdCor over versions",
    "drift": "Drift over versions",
    "configuration": "Configuration",
}
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #fff; --edge: #d0d7de; --heat-to: #0b5cad;
  --c0: #0b5cad; --c1: #b3530b; --c2: #1a7f37; --c3: #8250df; --c4: #a40e26; --c5: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --edge: #3d444d;
  --heat-to: #1f6feb; --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; --c4: #ff7b72; --c5: #9198a1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
a { color: var(--c0); } :focus-visible { outline: 3px solid var(--c1); outline-offset: 2px; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; background: var(--paper); padding: .5rem; }
nav ul, .legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0; margin: .5rem 0; }
nav a { display: inline-block; padding: .25rem 0; }
.soft { color: var(--soft); margin: .25rem 0; } .warn { border-left: 4px solid var(--c4); padding-left: .75rem; }
.verdict { display: grid; gap: .5rem; list-style: none; padding: 0; margin: .5rem 0; }
.verdict > li { border-left: .5rem solid var(--c5); padding: .25rem .75rem; } .verdict strong { font-size: 1.15rem; }
.verdict ul { margin: 0; padding-left: 1.25rem; } .verdict .good { border-color: var(--c2); }
.verdict .bad { border-color: var(--c4); }
main { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }
section { border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.cards caption { color: var(--ink); font-weight: bold; } .cards th { font-weight: normal; }
.heat th, .heat td { padding: .4rem .6rem; }
.heat td[style] { background: color-mix(in srgb, var(--heat-to) calc(var(--heat) * .7), transparent);
  text-align: right; }
.bar { display: inline-block; height: .6rem; width: calc(var(--share) * 7rem); min-width: 1px; margin-right: .5rem; }
.risk { background: var(--c4); } .rmse { background: var(--c0); }
.chart { display: block; width: 100%; max-width: 36rem; } .chart text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--edge); } polyline { fill: none; stroke-width: 2; } .legend svg { width: 1.5rem; height: .5rem;
  margin-right: .4rem; } .legend line { stroke-width: 3; } .dashed { stroke-dasharray: 5 3; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); } circle { fill: var(--paper); stroke-width: 2; }
circle.dashed { stroke-dasharray: none; }
pre { margin: 0; font-size: .85rem; } summary { cursor: pointer; padding: .25rem 0; }
@media (min-width: 60rem) { main { grid-template-columns: repeat(2, minmax(0, 1fr)); } .wide { grid-column: 1 / -1; } }
"""
"""The style sheet: one column on a phone, two on a wide screen, light and dark."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """What the page shows.

    ``versions``: the oldest first; ``reasons``, ``notes``: those of /readyz; ``mechanism``: its name and parameters;
    ``promise``: what it guarantees; ``rate``: records per second in the blocks of the last minute, None if it is not
    known; ``active``: the address of the active calibrator, if it is another one.
    """

    versions: tuple[VersionFigures, ...]
    configuration: str
    min_records: int
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    mechanism: str = ""
    promise: str = ""
    rate: float | None = None
    active: str | None = None


def document(content: PageContent, *, refresh: int | None = None) -> str:
    """Return the page; ``refresh``: seconds after which the browser loads it again."""
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    body = _sections(content) if content.versions else f'<p class="wide">{_nothing_yet(content)}</p>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>stream-masker</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}<style>{STYLE}</style></head>'
        '<body><a class="skip" href="#main">Skip to the figures</a>'
        f'{_header(content, refresh)}<main id="main">{body}{_configuration(content)}</main></body></html>'
    )


def _nothing_yet(content: PageContent) -> str:
    if content.active is not None:
        return "The active calibrator has the figures."
    return "No statistics have been published since this calibrator became active." if content.notes else "Starting."


def _header(content: PageContent, refresh: int | None) -> str:
    latest = content.versions[-1] if content.versions else None
    active = () if content.active is None else (f"The active calibrator is at {content.active}.",)
    state = "".join(f'<p class="warn">{escape(text)}</p>' for text in (*content.reasons, *content.notes, *active))
    shown = PAGE_SECTIONS if latest else {"configuration": PAGE_SECTIONS["configuration"]}
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in shown.items())
    reload = (
        '<li><a href="/">Stop refreshing</a></li>'
        if refresh
        else '<li><a href="/?refresh=30">Refresh every 30 s</a></li>'
    )
    return (
        f"<header><h1>stream-masker</h1>{_verdict(latest)}{_sentences(latest)}{state}{_mechanism(content)}"
        f"{_version_line(latest, content)}"
        f'<nav aria-label="Sections"><ul>{links}{reload}</ul></nav></header>'
    )


def _verdict(latest: VersionFigures | None) -> str:
    """Return the answers to what people ask first."""
    answers = () if latest is None else verdict(latest)
    return f'<ul class="verdict">{"".join(map(_answer, answers))}</ul>' if answers else ""


def _sentences(latest: VersionFigures | None) -> str:
    """Return what an attacker learns, what stays as it was, and what is kept."""
    return "" if latest is None else "".join(f"<p>{escape(sentence)}</p>" for sentence in latest.sentences)


def _answer(answer: Answer) -> str:
    word = answer.word if answer.yes is None else "yes" if answer.yes else "no"
    kind = "open" if answer.yes is None else "good" if answer.yes else "bad"
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in answer.reasons)
    return (
        f'<li class="{kind}"><strong>{answer.question}: {word}</strong>{f"<ul>{reasons}</ul>" if reasons else ""}</li>'
    )


def _mechanism(content: PageContent) -> str:
    if not content.mechanism:
        return ""
    return f'<p>{escape(content.mechanism)}</p><p class="soft">Its promise: {escape(content.promise)}.</p>'


def _version_line(latest: VersionFigures | None, content: PageContent) -> str:
    if latest is None:
        return ""
    least = content.min_records
    records = f"{latest.records:,}" if latest.records >= least else f"fewer than {least}"
    rate = "" if content.rate is None else f", {content.rate:,.0f} records/s in the last minute"
    return (
        f'<p class="soft">Statistics version {latest.version} from {escape(latest.source)}, '
        f"published {_time(latest.published)}, {records} records{rate}</p>"
    )


def _time(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'


def _section(name: str, body: str, *, wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    title = f'<h2 id="{name}-title">{PAGE_SECTIONS[name]}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title"{kind}>{title}{body}</section>'


def _scrollable(label: str, body: str) -> str:
    """Return a part that a keyboard can scroll if it is wider than the screen."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{body}</div>'


def _sections(content: PageContent) -> str:
    latest = content.versions[-1]
    return "".join(
        [
            _section("mean", _means(latest, content.min_records), wide=True),
            _section("sigma", _sigma(latest), wide=True),
            _section("protection", _protection(latest), wide=True),
            _section("correlation", _correlations(content.versions)),
            _section("drift", _drift(content.versions)),
        ]
    )


def _means(latest: VersionFigures, least: int) -> str:
    rows = {
        f"{name}, {data}": (_concept(window.mean.get(name), least), f"{window.variance[name]:.4f}")
        for name in latest.attributes
        for data, window in latest.windows.items()
    }
    return table("sMean with its label, and semantic variance", ("Attribute", "sMean", "sVar"), rows)


def _concept(mean: LabelledConcept | None, least: int) -> str:
    if mean is None:
        return f"not shown: fewer than {least} records in its class"
    return f"<code>{escape(mean.concept)}</code> {escape(mean.label)}"


def _sigma(latest: VersionFigures) -> str:
    maps = (
        _scrollable(f"Σ, {data}", heat_map(data, latest.attributes, window.sigma))
        for data, window in latest.windows.items()
    )
    return f'<p class="soft">sdVar on the diagonal, sdCov off it.</p><div class="cards">{"".join(maps)}</div>'


def _protection(latest: VersionFigures) -> str:
    if not latest.risk:
        return f'<p class="soft">{NOT_KNOWN_YET}</p>'
    cards = "".join(
        table(name, (), _protection_rows(risk, latest.rmse.get(name))) for name, risk in latest.risk.items()
    )
    linked = (
        "" if latest.linked is None else f" Of 1,000 random records, {latest.linked:.1%} are linked to their masks."
    )
    return (
        '<p class="soft">Vulnerability is how often the best guess of an original is right. RMSE is the distance '
        f'between originals and masks.{linked}</p><div class="cards">{cards}</div>'
    )


def _protection_rows(risk: AttributeRiskFigures, rmse: tuple[float, float] | None) -> dict[str, tuple[str]]:
    given = NOT_KNOWN_YET if risk.given_record is None else bar(risk.given_record, "risk")
    actual, target = (NOT_KNOWN_YET, NOT_KNOWN_YET) if rmse is None else (bar(value, "rmse") for value in rmse)
    rows = {
        "Vulnerability, given its mask": bar(risk.vulnerability, "risk"),
        "Vulnerability, given its record": given,
        "Surest guess, given any record": NOT_KNOWN_YET if risk.certainty is None else bar(risk.certainty, "risk"),
        "Best guess without masks": bar(risk.prior, "risk"),
        "RMSE, actual": actual,
        "RMSE, target": target,
        "Guessed with certainty above 0.9": f"{risk.certain:.1%}",
        "Unchanged": f"{risk.unchanged:.1%}",
    }
    return {name: (cell,) for name, cell in rows.items()}


def _correlations(versions: Sequence[VersionFigures]) -> str:
    pairs = list(versions[-1].windows["original"].correlation)
    if not pairs:
        return '<p class="soft">There is only one attribute.</p>'
    lines = [
        Line(f"{first}, {second}: {data}", _correlation(versions, data, (first, second)), i, dashed=data == "masked")
        for i, (first, second) in enumerate(pairs)
        for data in DATA
    ]
    return _chart("Semantic distance correlation, original and masked", versions, lines)


def _correlation(versions: Sequence[VersionFigures], data: DataKind, pair: PairNames) -> list[float | None]:
    windows = (v.windows.get(data) for v in versions)
    return [None if window is None else window.correlation.get(pair) for window in windows]


def _drift(versions: Sequence[VersionFigures]) -> str:
    lines = [
        Line(f"{name}: against {against}", [v.divergence.get(against, {}).get(name) for v in versions], i, dashed)
        for i, name in enumerate(versions[-1].attributes)
        for against, dashed in (("baseline", False), ("previous", True))
    ]
    return _chart("Divergence (Jensen-Shannon) of the values", versions, lines)


def _chart(title: str, versions: Sequence[VersionFigures], lines: Sequence[Line]) -> str:
    numbers = [v.version for v in versions]
    rows = {
        f"v{number}": [NOT_KNOWN_YET if line.values[i] is None else f"{line.values[i]:.4f}" for line in lines]
        for i, number in reversed(list(enumerate(numbers)))
    }
    figures = table(title, ("Version", *(line.name for line in lines)), rows)
    return (
        f'{version_chart(title, numbers, lines)}<p class="soft">Versions since this calibrator became active.</p>'
        f"<details><summary>Figures</summary>{_scrollable(title, figures)}</details>"
    )


def _configuration(content: PageContent) -> str:
    text = _scrollable("Configuration without secrets", f"<pre>{escape(content.configuration)}</pre>")
    return _section("configuration", f"<details><summary>Without secrets</summary>{text}</details>", wide=True)
