"""The golden cases: a configuration in the documented format, and the events that it masks, for each name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from golden import events
from golden.events import Json
from stream_masker.cli import main

FILE = Path(__file__).with_name("digests.json")
SIZE = 700
WINDOW: Json = {"window_records": 600, "min_records": 20}


def flat(ontology: str, name: str, **parameters: Any) -> Json:
    """Flat events with two attributes of one ontology, masked by a mechanism."""
    more = parameters.pop("more", {})
    attributes = {name: {"path": path, "ontology": ontology} for name, path in (("a", "diag_1"), ("b", "diag_2"))}
    return {
        "ontologies": {ontology: {"source": f"{ontology}.csv"}},
        "attributes": attributes | more.get("attributes", {}),
        "fields": {"keep": ["id", "note"], "pseudonymize": ["patient"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"name": name, **parameters},
        **{section: value for section, value in more.items() if section != "attributes"},
    }


def nested(**sections: Any) -> Json:
    """Nested events with a principal diagnosis, its copy and label, an array of secondary ones, and a filter."""
    principal, secondary = "diagnoses.principal", "diagnoses.secondary[*]"
    common = {"ontology": "tree", "missing": "keep"}
    return {
        "ontologies": {"tree": {"source": "tree.csv"}},
        "attributes": {
            "a": {"path": f"{principal}.code", "label": f"{principal}.display", "copies": ["billing.main"], **common},
            "b": {"path": f"{secondary}.code", "label": f"{secondary}.display", "copies": ["billing.all[*]"], **common},
            "c": {"path": "coding[?system=icd].code", **common, "unknown": "suppress"},
        },
        "fields": {"keep": ["encounter", "patient.age"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
        "noise_key": "patient.id",
        "mechanism": {"name": "semantic_noise", "reference": "mean"},
        **sections,
    }


CASES: Mapping[str, Json] = {
    "noise": flat("tree", "semantic_noise"),
    "noise-paper": flat("graph", "semantic_noise", preset="paper", distribution="laplace"),
    "noise-nested": nested(),
    "transport": flat("tree", "semantic_transport"),
    "transport-graph": flat("graph", "semantic_transport", certainty=0.4, least=2),
    "exponential": flat("graph", "exponential", epsilon=12.0, candidates="leaves", distance="log_taxonomic"),
    "naive-distortion": flat("tree", "naive_distortion"),
    "probabilistic-distortion": flat("tree", "probabilistic_distortion"),
    "pram": flat("tree", "pram"),
    "vicus": flat("tree", "vicus", more={"calibration": {**WINDOW, "window_records": 60}}),
    "random": flat("tree", "random", more={"calibration": {**WINDOW, "window_records": 60}}),
    "rank-swapping": flat("tree", "rank_swapping", k=6),
    "microaggregation": flat("tree", "microaggregation", k=4),
}


def write_files(folder: Path) -> Path:
    """Write the files that the configurations name to a folder; return the folder."""
    for name, links in events.LINKS.items():
        rows = [f'{child},{parent},"Disease {child}"\n' for child, parent in links()]
        (folder / f"{name}.csv").write_text("".join(["concept,parent,label\n", *rows]), encoding="utf-8")
    (folder / "secret").write_bytes(b"the secret of the golden cases")
    (folder / "secret").chmod(0o600)
    return folder


def outcome(name: str, folder: Path) -> dict[str, bytes]:
    """The masked records and the rejections of a case. ``folder`` holds the files that the configurations name."""
    case = CASES[name]
    sections = {"calibration": WINDOW, "groups": {"records": 40}, "secret": {"file": "secret"}, **case}
    sections["limits"] = {"record_bytes": 5_000, "rejected_share": 1.0}
    config, source, masked, rejected = (folder / f"{name}.{end}" for end in ("yaml", "in.jsonl", "jsonl", "rejected"))
    config.write_text(yaml.safe_dump(sections))
    ontology = next(iter(case["ontologies"]))
    shape = events.nested if name.endswith("nested") else events.flat
    source.write_bytes(b"".join(line + b"\n" for line in events.lines(shape, events.codes_of(ontology), SIZE)))
    call = ["mask", "--config", config, "--rejected", rejected, "--quiet", source, masked]
    done = CliRunner().invoke(main, list(map(str, call)))
    assert done.exit_code == 0, done.output
    return {"masked": masked.read_bytes(), "rejected": rejected.read_bytes()}


def digests(found: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of each part, in hexadecimal digits."""
    return {part: hashlib.sha256(content).hexdigest() for part, content in found.items()}


def mark() -> str:
    """The text by which the changelog names the set: the first digits of the hash of the file."""
    return f"golden set {hashlib.sha256(FILE.read_bytes()).hexdigest()[:8]}"
