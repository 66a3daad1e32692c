"""The report as HTML, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite, isnan
from typing import Any

import numpy as np

from stream_masker.evaluation.co_occurrence import CoOccurrence
from stream_masker.evaluation.evaluation import Evaluation
from stream_masker.evaluation.measurement import PLAIN_MEASURES
from stream_masker.evaluation.report.overview import (
    data_section,
    downstream_section,
    numeric_section,
    rejected_section,
    risk_section,
    verdict_section,
)
from stream_masker.evaluation.report.page import html_page, paragraphs
from stream_masker.evaluation.report.papers import (
    aggregation_section,
    noise_section,
    swapping_section,
    transition_section,
)

ROW_PARAMETERS = frozenset({"method", "variant", "k", "k1", "k2", "known"})
"""The parameters in the rows of the papers' tables; the other entries are measures."""

CSV_HEADER = ("mechanism", "method", "setting", "measure", "attribute", "value")
SECTIONS = (
    data_section,
    risk_section,
    noise_section,
    swapping_section,
    aggregation_section,
    transition_section,
    numeric_section,
    downstream_section,
    rejected_section,
)


def report_html(evaluation: Evaluation) -> str:
    """Return the report as an HTML page without links to other files."""
    sections = [make(evaluation) for make in SECTIONS]
    return html_page(
        "Utility and risk of masking",
        paragraphs("Utility and risk of masking"),
        sections,
        opening=[verdict_section(evaluation)],
    )


def report_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return the measures as JSON-serialisable data. Infinite numbers are the text ``infinite``."""
    statistics, related = evaluation.data.statistics, evaluation.co_occurrence
    data = {
        "records": evaluation.data.whole.size,
        "available": evaluation.data.available,
        "left_out": evaluation.data.left_out,
        "attributes": list(evaluation.data.attributes),
        "numeric": list(evaluation.data.numeric),
        "statistics": {name: statistics.to_dict()[name] for name in ("mean", "variance", "covariance", "correlation")},
        "measurements": [measured.to_dict() for measured in evaluation.measurements],
        "swapping": [asdict(row) for row in evaluation.swapping],
        "microaggregation": [asdict(row) for row in evaluation.errors],
        **_data_of_2012(related or CoOccurrence("")),
        "rejected": [asdict(rejection) for rejection in evaluation.rejected],
    }
    return dict(_plain(data))


def report_json(evaluation: Evaluation) -> str:
    """Return the measures as JSON."""
    return json.dumps(report_data(evaluation), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def report_csv(evaluation: Evaluation) -> str:
    """Return the measures of all candidates and of the papers' tables as CSV.

    Each measure and attribute has one line. The methods of the tables of 2019, 2013 and 2012, which mask the file as
    one group, begin with the year.
    """
    text, data = io.StringIO(), report_data(evaluation)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for measured in data["measurements"]:
        candidate = [measured[name] for name in CSV_HEADER[:3]]
        writer.writerows([*candidate, *line] for line in _lines(measured))
    writer.writerows(_table_lines(data))
    return text.getvalue()


def _table_lines(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str, Any]]:
    """Yield the lines of the tables of 2019, 2013 and 2012, which are not of candidates."""
    for row in data["swapping"]:
        yield from _row_lines(row, "rank_swapping", f"2019: {row['method']}", f"k = {row['k']}")
    for row in data["microaggregation"]:
        yield from _row_lines(row, "microaggregation", f"2013: {row['variant']}", f"k = {row['k']}")
    for row in data["vicus"] or ():
        setting = f"k1 = {row['k1']:g}, k2 = {row['k2']:g}, known = {row['known']}"
        yield from _row_lines(row, row["method"].lower(), f"2012: {row['method']}", setting)


def _row_lines(
    row: Mapping[str, Any], mechanism: str, method: str, setting: str
) -> Iterator[tuple[str, str, str, str, str, Any]]:
    for measure, value in row.items():
        if measure not in ROW_PARAMETERS:
            yield from ((mechanism, method, setting, *line) for line in _values(measure, value))


def _data_of_2012(measured: CoOccurrence) -> dict[str, Any]:
    """Return the entropies, the similarities, and χ² of the original and of the masked files; null if not measured."""
    associations = {"attributes": measured.pair, "original": measured.original, "files": dict(measured.files)}
    return {
        "vicus": [asdict(row) for row in (*measured.entropies, *measured.by_knowledge)] or None,
        "similarities": measured.similarities and asdict(measured.similarities),
        "associations": associations if measured.files else None,
    }


def _lines(measured: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    yield from _risk_lines(measured["risk"])
    for name in PLAIN_MEASURES[:-1]:
        yield from _values(name, measured[name])
    for name, measures in (*measured["utility"]["attributes"].items(), *measured["utility"].get("numeric", {}).items()):
        yield from ((measure, name, value) for measure, value in measures.items())
    for pair in (*measured["utility"]["pairs"], *measured["utility"].get("numeric_pairs", [])):
        label = " ".join(pair["attributes"])
        yield from ((measure, label, value) for measure, value in pair.items() if measure != "attributes")
    for prediction in measured["predictions"]:
        yield "accuracy", f"{prediction['source']} {prediction['target']}", prediction["masked"]


def _risk_lines(risk: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the figures of codes, and the shares and errors of attributes; the JSON has those of levels and groups."""
    for given, suffix in (("value", ""), ("record", "_given_record")):
        for attribute, learned in (risk[given] or {}).items():
            numbers = {name: number for name, number in learned.items() if not isinstance(number, Mapping)}
            yield from ((f"{name}{suffix}", attribute, number) for name, number in numbers.items())
    for name in ("unchanged", "rmse"):
        yield from _values(name, risk[name])


def _values(name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, Mapping):
        yield from ((name, attribute, each) for attribute, each in value.items())
    else:
        yield name, "", value


def _plain(value: Any) -> Any:
    """Return a value for JSON, with pairs as names joined by a space, and matrices as lists.

    Numbers are rounded and infinite ones replaced, so that the value does not depend on the last bits of sums.
    """
    if isinstance(value, Mapping):
        return {" ".join(key) if isinstance(key, tuple) else key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else "infinite"
    return float(f"{value:.10g}") if isinstance(value, float) else value
