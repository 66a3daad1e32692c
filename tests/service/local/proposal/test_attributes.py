"""The attributes of a proposal beside ontologies whose chapters are single letters, such as ATC."""

from __future__ import annotations

import orjson
import yaml

from stream_masker.service.local.proposal import proposed_configuration

CODES = ["A10BA02", "M01AE01", "D07AC01", "S01ED01"]


def test_single_letters_are_no_codes(tmp_path):
    rows = "".join(f"{code},{code[0]}\n{code[0]},ATC\n" for code in CODES)
    (tmp_path / "atc.csv").write_text(f"concept,parent\nATC,\n{rows}")
    events = [{"ATC": CODES[k % 4], "Geschlecht": "MW"[k % 2], "Familienstand": "SMD"[k % 3]} for k in range(1200)]
    proposal = yaml.safe_load(proposed_configuration(map(orjson.dumps, events), {"atc": str(tmp_path / "atc.csv")}))
    assert list(proposal["attributes"]) == ["ATC"]
    assert proposal["fields"]["keep"] == ["Geschlecht", "Familienstand"]
