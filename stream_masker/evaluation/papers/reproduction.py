"""The papers' tables next to the same measures on generated data, with the reasons for the differences."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from stream_masker.core.batch import MaskedBatch
from stream_masker.core.distance import LogTaxonomic
from stream_masker.core.marginality import marginality
from stream_masker.core.mechanisms.microaggregation import AGGREGATION_VARIANTS
from stream_masker.core.mechanisms.vicus import ValueGraph
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import count_batch
from stream_masker.errors import ParameterError, ServiceError, StatisticsError
from stream_masker.evaluation.candidates import SWAPPING_INTERVALS, Candidate, noise_candidate
from stream_masker.evaluation.co_occurrence import CoOccurrence, co_occurrence
from stream_masker.evaluation.dataset import DataSet, utility_of
from stream_masker.evaluation.evaluation import ALPHAS_2016
from stream_masker.evaluation.grouped import SSE_KS, sse_row, swapping_row
from stream_masker.evaluation.papers import samples
from stream_masker.evaluation.papers.printed import (
    ASSOCIATIONS,
    NOISE_ALPHAS,
    PRINTED_MARGINALITIES,
    UNREACHABLE_DISTANCE,
    UNREACHABLE_PAIRS,
    PrintedTable,
    compared,
    printed_tables,
    reasons,
)
from stream_masker.evaluation.report.page import ReportSection, ReportTable
from stream_masker.evaluation.report.papers import (
    DISTORTIONS,
    ENTROPY_HEADER,
    association_figure,
    entropy_figures,
    entropy_rows,
    knowledge_figure,
)

AT_ALPHA_1 = ("Table 2", "Table 3", "Table 4")
"""The tables of 2017 that mask Dataset1, by method."""

METRICS = {
    "mean moved": "mean_distance",
    "sVar": "variance",
    "RMSE": "rmse_actual",
    "target": "rmse_target",
    "variance error": "variance_error",
}
"""The measures of an attribute by the names of their printed metrics."""


def _masked(data: DataSet, candidate: Candidate) -> tuple[dict[str, float], MaskedBatch]:
    """Mask a data set; return the measures under the names of the printed metrics, and the masks."""
    mechanism = candidate.build(data)
    masked = data.mask(mechanism)
    utility = utility_of(mechanism, data, masked)
    measures = {
        f"{metric} {name}": getattr(a, measure)
        for name, a in utility.attributes.items()
        for metric, measure in METRICS.items()
    }
    for pair in utility.pairs.values():
        measures |= {"sdCov": pair.covariance, "sdCor": pair.correlation, "covariance error": pair.covariance_error}
    return measures, masked


def _with_noise(data: DataSet, method: str, alpha: float) -> tuple[dict[str, float], MaskedBatch]:
    return _masked(data, noise_candidate(method, "ceil", alpha))


def _noise_table(table: PrintedTable, data: DataSet, alphas: Sequence[float], title: str) -> ReportTable:
    measured = [_with_noise(data, table.of[1], alpha)[0] for alpha in alphas]
    ours = {metric: [measures[metric] for measures in measured] for metric in table.figures}
    return table.beside(f"{title}: {table.of[1]}", ("metric", *(f"α = {alpha:g}" for alpha in alphas)), ours)


def _features(table: PrintedTable, data: DataSet, digits: int = 2) -> ReportTable:
    statistics = data.statistics
    ours = {f"sVar({a})": [statistics.variance[a]] for a in data.attributes}
    for i, a in enumerate(data.attributes):
        ours[f"sdVar({a})"] = [float(statistics.covariance[i, i])]
        for j, b in enumerate(data.attributes):
            ours[f"sdCov({a}, {b})"] = [float(statistics.covariance[i, j])]
            ours[f"sdCor({a}, {b})"] = [float(statistics.correlation[i, j])]
    return table.beside(f"{table.name}: {table.of[0]}", ("feature", "ours (printed)"), ours, digits)


def paper_2017(_: Path | None) -> list[ReportSection]:
    """Reproduce tables 1 to 8 (semantic noise)."""
    sets = samples.datasets_of("2017")
    printed = {table.name: table for table in printed_tables("2017")}
    tables = [_features(printed[name], sets[printed[name].of[0]]) for name in ("Table 1", "Table 6")]
    for table in printed.values():
        if len(table.of) > 1:
            tables.append(_noise_table(table, sets[table.of[0]], NOISE_ALPHAS, f"{table.name}, {table.of[0]}"))
    tables += [_means_table(printed["Table 5"], sets["Dataset1"]), _distance_table(printed)]
    return [ReportSection("2017: semantic noise", reasons("2017"), tuple(tables))]


def _means_table(table: PrintedTable, data: DataSet) -> ReportTable:
    baselines = {label: name for name, label in DISTORTIONS.items()}
    ours = {}
    for name in table.figures:
        baseline = name in baselines
        measures, _ = _masked(data, Candidate(baselines[name], name, "")) if baseline else _with_noise(data, name, 1.0)
        ours[name] = [measures[f"mean moved {a}"] for a in data.attributes]
    return table.beside("Table 5, Dataset1: sd(sMean*, sMean)", ("method (α = 1)", "a", "b"), ours)


def _distance_table(printed: Mapping[str, PrintedTable]) -> ReportTable:
    """Return the sdCor of masked data at α = 1, by how far apart both diagnoses of a record are."""
    sets = {
        "near each other (Dataset1)": samples.dataset_1_of_2017(),
        "in different chapters": samples.dataset_1_of_2017(apart=True),
        "in different chapters, a class for each value": samples.dataset_1_of_2017(apart=True, classes=17),
    }
    methods = [f"sdCor: {printed[name].of[1]}" for name in AT_ALPHA_1]
    header = ("diagnoses of a record", "mean sd(a, b)", "beyond reach", "RMSE a", "target a", *methods)
    rows = tuple((name, *_distance_row(data, printed)) for name, data in sets.items())
    note = (
        "Beyond reach, RMSE and target are those of Algorithm 2. Beyond reach: the share of values of a for which no "
        "admissible concept is as far away as the noise."
    )
    return ReportTable("What sdCor at α = 1 depends on, Dataset1", header, rows, note)


def _distance_row(data: DataSet, printed: Mapping[str, PrintedTable]) -> Iterator[str]:
    a, b = data.whole.columns
    yield f"{data.distances[0].pairs(a.codes, b.codes).mean():.2f}"
    measured = {}
    for name in AT_ALPHA_1:
        measured[name], masked = _with_noise(data, printed[name].of[1], 1.0)
    distortion = masked.distortions[0]
    yield f"{distortion.share(distortion.truncated):.2f}"
    for name, metric in (("Table 4", "RMSE a"), ("Table 4", "target a"), *((name, "sdCor") for name in AT_ALPHA_1)):
        yield compared(measured[name][metric], printed[name].figures[metric][-1])


def paper_2016(_: Path | None) -> list[ReportSection]:
    """Reproduce Table 1 (correlated noise)."""
    data = samples.dataset_1_of_2017()
    tables = [_noise_table(table, data, ALPHAS_2016, table.name) for table in printed_tables("2016")]
    return [ReportSection("2016: correlated noise", reasons("2016"), tuple(tables))]


def paper_2019(_: Path | None) -> list[ReportSection]:
    """Reproduce tables 1 to 6 (rank swapping)."""
    sets = samples.datasets_of("2019")
    first, *others = printed_tables("2019")
    tables = [_features(first, sets["Dataset1"], 4), *(_swapping_table(table, sets[table.of[0]]) for table in others)]
    return [ReportSection("2019: rank swapping", reasons("2019"), tuple(tables))]


def _swapping_table(table: PrintedTable, data: DataSet) -> ReportTable:
    sample, method = table.of
    rows = [swapping_row(data, method, k) for k in SWAPPING_INTERVALS]
    ours: dict[str, list[float]] = {f"RMSE {a}": [row.rmse[a] for row in rows] for a in data.attributes}
    ours |= {f"sdCor {a} {b}": [row.correlation[a, b] for row in rows] for a, b in rows[0].correlation}
    header = ("metric", *(f"k = {k}" for k in SWAPPING_INTERVALS))
    return table.beside(f"{table.name}, {sample}: {method}", header, ours, 4)


DISCHARGES_2013: Mapping[str, tuple[str, int, int, bool]] = {
    "Table 2": ("2", 542, 3_000, True),
    "Table 3": ("11", 409, 3_000, True),
    "Table 4": ("2", 542, 3_000, False),
    "Table 5": ("11", 409, 3_000, False),
}
"""The generated data sets of 2013.

Each has a chapter of ICD-10-CM, its number of distinct values and of records, and whether there are numbers.
"""


def paper_2013(_: Path | None) -> list[ReportSection]:
    """Reproduce Table 1 (marginality) and tables 2 to 5 (microaggregation)."""
    tables = [_marginality_table(), *map(_sse_table, printed_tables("2013"))]
    return [ReportSection("2013: marginality and microaggregation", reasons("2013"), tuple(tables))]


def _marginality_table() -> ReportTable:
    d = LogTaxonomic(Ontology.from_edges(samples.DIAGNOSES).taxonomy())
    rounded = d.between(samples.PATIENTS, samples.PATIENTS).round(2)
    as_printed = rounded.copy()
    for i, j in permutations(range(len(samples.PATIENTS)), 2):
        if frozenset((samples.PATIENTS[i], samples.PATIENTS[j])) in UNREACHABLE_PAIRS:
            as_printed[i, j] = UNREACHABLE_DISTANCE
    columns = (marginality(list(samples.PATIENTS), d), rounded.sum(axis=1), as_printed.sum(axis=1))
    rows = tuple(
        (f"x{i + 1} {value}", *(compared(float(ours[i]), PRINTED_MARGINALITIES[i]) for ours in columns))
        for i, value in enumerate(samples.PATIENTS)
    )
    header = ("element", "exact (printed)", "from rounded distances", "with the printed 0.65")
    return ReportTable("Table 1: marginalities", header, rows)


def _sse_table(table: PrintedTable) -> ReportTable:
    root, categories, records, numeric = DISCHARGES_2013[table.name]
    data = samples.discharges_of_2013(root, categories, records, numeric=numeric)
    measured = (sse_row(data, k, variant) for k in SSE_KS for variant in AGGREGATION_VARIANTS)
    ours = {(row.k, row.variant): row.sse["diagnosis"] for row in measured}
    theirs = table.figures
    rows = tuple(
        (
            str(k),
            f"{ours[k, 'classic']:.1f}",
            f"{ours[k, 'semantic']:.1f}",
            compared(_ratio(ours[k, "semantic"], ours[k, "classic"]), theirs["semantic"][i] / theirs["classic"][i]),
        )
        for i, k in enumerate(SSE_KS)
    )
    return ReportTable(f"{table.name}: {table.of[0]}", ("k", "SSE classic", "SSE semantic", "semantic / classic"), rows)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


CONFIDENTIAL = "spore-print-color"
"""The confidential attribute of the mushroom data set, which the paper does not state."""

ASSOCIATED = ("cap-color", "stalk-surface-below-ring")
"""The attributes of Figure 7: their χ² is the printed one."""

PRINTED_FILES = 30
PARTITION: Mapping[str, Any] = {"parts": 4, "part_size": 2}
BANK_THRESHOLD = 0.4
MUSHROOM_ATTRIBUTES = (
    *("class", "cap-shape", "cap-surface", "cap-color", "bruises?", "odor", "gill-attachment", "gill-spacing"),
    *("gill-size", "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring"),
    *("stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type"),
    *("spore-print-color", "population", "habitat"),
)
"""The columns of the mushroom data set, by the names of the UCI repository."""


def paper_2012(mushroom: Path | None) -> list[ReportSection]:
    """Reproduce tables 2 and 3 and figures 5 and 7 (VICUS). ``mushroom``: the file of the mushroom data set.

    Raises ServiceError if the file is not that data set.
    """
    measured = _measured(mushroom)
    tables: list[ReportTable] = [*_similarity_tables(), _entropy_comparison(measured), _knowledge_table(measured)]
    if mushroom is not None:
        tables.append(_association_table(measured))
    figures = [knowledge_figure(measured), association_figure(measured)]
    paragraphs = (*reasons("2012"), *reasons("2012 generated" if mushroom is None else "2012 mushroom"))
    return [ReportSection("2012: VICUS", paragraphs, (*tables, *figures))]


def _measured(mushroom: Path | None) -> CoOccurrence:
    if mushroom is None:
        data = samples.mushrooms(2_000)
        return co_occurrence(data, confidential=data.attributes[-1], files=PRINTED_FILES, **PARTITION)
    data = read_mushrooms(mushroom)
    settings = {**PARTITION, "files": PRINTED_FILES, "pair": ASSOCIATED, "records": data.whole.size}
    try:
        return co_occurrence(data, confidential=CONFIDENTIAL, **settings)
    except (ParameterError, StatisticsError) as error:
        raise ServiceError(f"{mushroom} is not the mushroom data set: {error}") from None


def read_mushrooms(path: Path) -> DataSet:
    """Read the complete records of the mushroom data set: 23 columns, ``?`` for a missing value or a shorter row.

    Raises ServiceError if the file is not that data set.
    """
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
            rows = [row for row in csv.reader(lines) if "?" not in row]
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(f"{path} cannot be read ({type(error).__name__})") from None
    width = max(map(len, rows), default=0)
    if width != len(MUSHROOM_ATTRIBUTES):
        raise ServiceError(f"{path} is not the mushroom data set: it has {width} columns, which should be 23")
    columns = zip(*(row for row in rows if len(row) == width), strict=True)
    return samples.flat_dataset(dict(zip(MUSHROOM_ATTRIBUTES, columns, strict=True)))


def _similarity_tables() -> Iterator[ReportTable]:
    data = samples.flat_dataset(samples.BANK)
    sizes = [len(tau) for tau in data.taxonomies.values()]
    counts = count_batch(data.whole, sizes)
    graph = ValueGraph.of(counts, tuple(sizes), multigraph=False)
    direct = graph.direct()
    transitive = graph.transitive(direct, BANK_THRESHOLD)
    matrices = {"S′": direct[0], "S″": transitive[0], "S": 0.6 * direct[0] + 0.4 * transitive[0]}
    for table in printed_tables("2012")[:-1]:
        ours = {str(i): row.tolist() for i, row in enumerate(matrices[table.of[0]], 1)}
        yield table.beside(f"{table.name}: {table.of[0]}", ("client", *"123456"), ours, 3)


def _entropy_comparison(measured: CoOccurrence) -> ReportTable:
    *_, table = printed_tables("2012")
    header = ("parameters", *ENTROPY_HEADER)
    return table.beside("Table 3: average entropy", header, entropy_rows(measured.entropies), 4)


def _knowledge_table(measured: CoOccurrence) -> ReportTable:
    rows = []
    for known in dict.fromkeys(row.known for row in measured.by_knowledge):
        figures = entropy_figures([row for row in measured.by_knowledge if row.known == known])
        rows.append((str(known), *(f"{figure:.4f}" for figure in figures)))
    note = "k1 = 5, k2 = 20. The paper prints these entropies as a picture only."
    title = "Figure 5: average entropy by the number of known attributes"
    return ReportTable(title, ("known attributes", *ENTROPY_HEADER), tuple(rows), note)


def _association_table(measured: CoOccurrence) -> ReportTable:
    rows = [("original", f"{measured.original:.1f} ({ASSOCIATIONS['original']})")]
    for method, values in measured.files:
        rows.append((method, f"{min(values):.0f} to {max(values):.0f} ({ASSOCIATIONS[method]})"))
    title = f"Figure 7: χ² of {' and '.join(measured.pair)} in {PRINTED_FILES} masked files"
    return ReportTable(title, ("file", "ours (printed)"), tuple(rows), "k1 = 5, k2 = 20.")


PAPERS: Mapping[str, Callable[[Path | None], list[ReportSection]]] = {
    "2012": paper_2012,
    "2013": paper_2013,
    "2016": paper_2016,
    "2017": paper_2017,
    "2019": paper_2019,
}


def reproduction(paper: str, data: Path | None = None) -> list[ReportSection]:
    """Return the tables of a paper on generated data. ``data``: the mushroom data set, for 2012.

    Raises ParameterError for an unknown paper, or if ``data`` is given for a paper other than 2012.
    """
    if paper not in PAPERS:
        raise ParameterError(f"paper={paper!r} is not allowed: use {', '.join(PAPERS)}")
    if data is not None and paper != "2012":
        raise ParameterError(f"data={str(data)!r} is not allowed for {paper}: only 2012 takes a data set")
    return PAPERS[paper](data)
