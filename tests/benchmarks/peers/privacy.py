"""Privacy: this project beside other methods, on the same real discharges.

``python tests/benchmarks/peers/privacy.py [--only NAME] [--write]`` creates the environments, masks with each method,
measures, and prints the tables or writes them into ``docs/development.md``. Takes ten minutes on one core.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from measuring import arguments
from support.real_codes import as_batch, in_force

from peers.harness import JavaPeer, Peer, RPeer, show_rows
from peers.inside.exchange import read_columns, write_columns
from peers.measures import (
    ATTRIBUTES,
    Records,
    at_level,
    disclosure,
    icd9cm,
    least_group,
    real_records,
    rmse,
    utility,
)
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport
from stream_masker.core.random import PositionKeys

TABLES = 5
"""How often a method masks the records: one table is attacked, and the attacker learns from the others."""

UTILITY = ("RMSE", "ΔsdCor", "TV of one", "TV of two")
HEAD = (*UTILITY, "right: code", "right: block", "right: chapter", "k", "ε")
FORMATS = {"ΔsdCor": "+.3f", "k": "d", "ε": ".1f"}
LEVELS = ("code", "block", "chapter")

ARX_JARS = (
    *("colt/*", "commons/*", "exp4j/*", "hppc/*", "jhpl/*", "log4j/*", "mahout/guava-*", "mahout/mahout-*"),
    *("mahout/slf4j-*", "newtonraphson/*", "objectselector/*", "pdfbox/pdfbox-layout", "poi/poi-3*"),
    *("poi/poi-ooxml-3*", "smile/*", "univocity/*"),
)
"""The jars that ARX needs without its user interface."""

TRANSPORT = "stream-masker: semantic transport"
OURS: dict[str, Callable[..., Any]] = {
    "stream-masker: semantic noise, the default": partial(
        SemanticNoise, alpha=1.0, reference="pair", rounding="calibrated", candidates="observed"
    ),
    TRANSPORT: SemanticTransport,
}
"""The mechanisms of our rows."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A peer and its settings. ``kind``: what its tables are. ``label``: its row."""

    peer: Peer
    label: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict)


PRAM = RPeer(
    "sdcmicro",
    "sdcmicro_pram.R",
    ("sdcMicro==5.8.1",),
    repository="https://github.com/sdcTools/sdcMicro",
    commit="cf3251017482bb215f0a9abf4a930f502399fb72",
    install="sdcmicro_install.R",
)
ARX = JavaPeer(
    "arx",
    "ArxGroups.java",
    ("ARX==3.9.2",),
    repository="https://github.com/arx-deidentifier/arx",
    commit="aacd487fb77b3af7970d5d6fa1b2f6cca1182b64",
    paths=("/src/main/", *(f"/lib/ant/{name}.jar" for name in ARX_JARS)),
    java="src/main",
    artifacts=(
        "org.apache.hadoop:hadoop-core:1.2.1",
        "org.apache.pdfbox:pdfbox:2.0.1",
        "org.apache.pdfbox:fontbox:2.0.1",
        "commons-logging:commons-logging:1.2",
    ),
)
PEERS = (
    Method(
        Peer("opendp", "opendp_response.py", ("opendp==0.16.0",)),
        "randomised response, at the same chance of the attacker",
        "masked",
        {"tables": TABLES, "epsilon": "uniform"},
    ),
    Method(
        Peer("diffprivlib", "diffprivlib_exponential.py", ("diffprivlib==0.6.6", "scikit-learn==1.6.1")),
        "exponential mechanism by semantic distance, at the same chance of the attacker",
        "masked",
        {"tables": 3, "epsilon": "distances"},
    ),
    Method(
        Peer("anjana", "anjana_groups.py", ("anjana==1.2.3",)),
        "k-anonymity, k = 5, at most 5 % of the records left out",
        "masked",
        {"k": 5, "suppressed": 5, "root": "ICD9CM"},
    ),
    Method(
        ARX,
        "k-anonymity, k = 5, at most 5 % of the records left out",
        "masked",
        {"k": 5, "suppressed": 5, "root": "ICD9CM"},
    ),
    Method(PRAM, "invariant PRAM, with its defaults", "masked", {"tables": TABLES}),
    Method(
        Peer("presidio", "presidio_hash.py", ("presidio-anonymizer==2.2.366",)),
        "SHA-256 with one secret salt",
        "hashed",
    ),
    Method(
        Peer("mst", "dpmm_mst.py", ("dpmm==0.1.9",)),
        "MST, a synthetic table",
        "synthetic",
        {"epsilon": 1.0, "delta": 1e-9, "iterations": 1_000},
    ),
    Method(
        Peer("copula", "gaussian_copula.py", ("copulas==0.14.1", "numpy==1.26.4", "pandas==2.2.3")),
        "Gaussian copula, a synthetic table",
        "synthetic",
    ),
)


def main() -> None:
    given = arguments(__doc__, {"--only": {"choices": [method.peer.name for method in PEERS]}, "--write": False})
    chosen = [method for method in PEERS if given.only in (None, method.peer.name)]
    rows = list(measured(chosen))
    show_rows("privacy", ("", *HEAD), page_rows(rows), write=given.write)


def page_rows(rows: Sequence[tuple[str, Figures]]) -> list[list[str]]:
    """The rows of the page's table."""
    return [[label, *(cell(figures.get(name, "–"), name) for name in HEAD)] for label, figures in rows]


def cell(value: float | str, name: str) -> str:
    return value if isinstance(value, str) else format(value, FORMATS.get(name, ".3f"))


def measured(methods: Sequence[Method]) -> Iterator[tuple[str, Figures]]:
    """The rows: this project, and the peers."""
    original = real_records()
    ours = {label: own_figures(original, make) for label, make in OURS.items()}
    yield from (shown(label, figures) for label, figures in ours.items())
    for method in methods:
        figures = peer_figures(original, method, ours[TRANSPORT]["right: code"])
        yield shown(f"{method.peer.title}: {method.label}", figures)


def shown(label: str, figures: Figures) -> tuple[str, Figures]:
    rounded = {name: value if isinstance(value, str) else round(value, 4) for name, value in figures.items()}
    print(label, rounded, file=sys.stderr, flush=True)
    return label, figures


def own_figures(original: Records, make: Callable[..., Any]) -> Figures:
    """The figures of one of our mechanisms."""
    batch = as_batch(original.codes)
    taxonomies = dict.fromkeys(ATTRIBUTES, icd9cm().taxonomy())
    mechanism = in_force(make(taxonomies, seed=b"a seed of sixteen bytes"), batch)
    tables = []
    for number in range(TABLES):
        keys = PositionKeys(b"secret %d of sixteen bytes" % number, "peers", 0, np.arange(batch.size, dtype=np.int64))
        tables.append(original.with_codes(np.array([c.codes for c in mechanism.mask_batch(batch, keys).columns])))
    return table_figures(original, tables)


def table_figures(original: Records, tables: Sequence[Records]) -> Figures:
    """The figures of masked tables whose records are the original ones in their order."""
    masked, trials = tables[0], [table.codes[0] for table in tables[1:] or tables]
    found = {"RMSE": rmse(original, masked)} | utility(original, masked) | disclosure(original, masked, trials)
    return found | group_figures(masked)


def group_figures(masked: Records) -> Figures:
    return {"k": least_group(masked), "ε": "none"}


def peer_figures(original: Records, method: Method, target: float) -> Figures:
    """Run a peer and measure its tables. ``target``: the chance of the attacker for which ε is chosen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(original, folder)
        settings = method.settings | settled(original, method, target)
        told = method.peer.run(folder, settings)
        print(method.peer.name, settings, told, file=sys.stderr, flush=True)
        files = sorted(folder.glob("masked-*.csv"))
        figures = FIGURES[method.kind](original, files)
    if "epsilon" in told:
        figures["ε"] = f"{told['epsilon']:.1f}" + (", of the table" if method.kind == "synthetic" else "")
    return figures


def settled(original: Records, method: Method, target: float) -> dict[str, float]:
    """The ε of a mechanism of single values, for which the attacker is right as often as given."""
    if not isinstance(method.settings.get("epsilon"), str):
        return {}
    values, counts = np.unique(original.codes[0], return_counts=True)
    far = WuPalmer(icd9cm().taxonomy()).matrix(values) / 2
    if method.settings["epsilon"] == "uniform":
        far = (far > 0).astype(float)
    low, high = 0.01, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        channel = np.exp(-middle * far)
        joint = (counts / counts.sum())[:, None] * channel / channel.sum(axis=1, keepdims=True)
        low, high = (middle, high) if joint.max(axis=0).sum() < target else (low, middle)
    return {"epsilon": middle}


def write_records(original: Records, folder: Path) -> None:
    """Write what the scripts read: the records, the distances of their codes, and the ancestors of these."""
    tau = icd9cm().taxonomy()
    columns = [*(tau.decode(codes.tolist()) for codes in original.codes), original.readmitted, original.stay]
    write_columns(columns, folder / "records.csv")
    ancestors = {}
    for name, codes in zip(ATTRIBUTES, original.codes, strict=True):
        values = np.array(sorted(np.unique(codes).tolist(), key=lambda code: tau.ids[code]), np.int32)
        np.save(folder / f"distances-{name}.npy", WuPalmer(tau).matrix(values))
        ancestors |= {tau.ids[code]: generalised(code) for code in values.tolist()}
    (folder / "hierarchies.json").write_text(json.dumps(ancestors))
    lines = (f"{','.join((code, *above))}\n" for code, above in ancestors.items())
    (folder / "hierarchies.csv").write_text("".join(lines))


def generalised(code: int) -> list[str]:
    """The ids of the category, block, chapter and root of a code; of itself where it is above."""
    tau = icd9cm().taxonomy()
    found = [at(depth)[code] for depth in (4, 3, 2, 1)]
    return [tau.ids[code if position < 0 else position] for position in found]


@cache
def at(depth: int) -> np.ndarray:
    return at_level(np.arange(len(icd9cm().taxonomy())), depth)


def masked_tables(original: Records, files: Sequence[Path]) -> Figures:
    return table_figures(original, [read_records(file) for file in files])


def synthetic_table(original: Records, files: Sequence[Path]) -> Figures:
    masked = read_records(files[0])
    prior = {f"right: {level}": "no record" for level in LEVELS}
    return {"RMSE": "–"} | utility(original, masked) | prior | group_figures(masked)


def hashed_table(original: Records, files: Sequence[Path]) -> Figures:
    """The attacker gives the n-th most frequent hash the n-th most frequent code, of a law that everybody may know."""
    texts = read_columns(files[0])
    masked = original.with_codes(
        np.array([matched(c, texts[name]) for name, c in zip(ATTRIBUTES, original.codes, strict=True)])
    )
    figures: Figures = dict.fromkeys(UTILITY, "–")
    for level, depth in zip(LEVELS, (0, 3, 2), strict=True):
        right = at_level(masked.codes[0], depth) == at_level(original.codes[0], depth)
        figures[f"right: {level}"] = float(right.mean())
    return figures | group_figures(masked)


def matched(codes: np.ndarray, texts: Sequence[str]) -> np.ndarray:
    """The codes that an attacker takes the texts for."""
    values, counts = np.unique(codes, return_counts=True)
    _, which, seen = np.unique(texts, return_inverse=True, return_counts=True)
    decoded = np.empty(values.size, np.int32)
    decoded[np.argsort(-seen, kind="stable")] = values[np.argsort(-counts, kind="stable")]
    return decoded[which]


def read_records(file: Path) -> Records:
    texts, tau = read_columns(file), icd9cm().taxonomy()
    codes = np.array([tau.encode(texts[name]) for name in ATTRIBUTES], np.int32)
    return Records(codes, *(np.array(texts[name], np.int64) for name in ("readmitted", "stay")))


FIGURES: dict[str, Callable[[Records, Sequence[Path]], Figures]] = {
    "masked": masked_tables,
    "hashed": hashed_table,
    "synthetic": synthetic_table,
}


if __name__ == "__main__":
    main()
