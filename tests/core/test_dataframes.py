"""Tables where records are expected: the same batch as from a list of records."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.learning import trained

from stream_masker.core.dataframes import WrappedTable, as_records
from stream_masker.core.mechanisms import Exponential, SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError

TAU = Ontology.from_edges([("x", "root"), ("y", "root"), ("x1", "x"), ("x2", "x"), ("y1", "y")]).taxonomy()
CODES = ["x1", "x2", "y1", "x1", None, "y1"] * 20
DATA = {"a": CODES, "b": CODES[::-1], "age": [None, *map(float, range(1, 120))], "other": ["text"] * 120}
RECORDS = [{name: column[row] for name, column in DATA.items() if name != "other"} for row in range(120)]
FRAMES = [pa.table(DATA), pl.DataFrame(DATA), pd.DataFrame(DATA), pd.DataFrame(DATA, index=range(500, 620))]
SEED = b"sixteen bytes or more"


@pytest.mark.parametrize("frame", FRAMES, ids=["pyarrow", "polars", "pandas", "index"])
def test_learning_and_masking_a_table_is_that_of_its_records(frame):
    assert as_records(frame, ("a", "b", "age")) == RECORDS
    keys = [b"%d" % row for row in range(120)]
    results = []
    for records in (RECORDS, frame):
        noise = trained(Exponential({"a": TAU, "b": TAU}, seed=SEED), records)
        results.append((noise.mask_many(records, keys=keys), noise.statistics.to_dict()))
    assert results[0] == results[1]
    assert any(one["a"] != record["a"] for one, record in zip(results[1][0], RECORDS, strict=True))


def test_lists_in_cells_are_array_attributes():
    lists = [["x1", "y1"], [], None]
    made = SemanticNoise({"a": TAU}, seed=SEED)
    expected = made.encode([{"a": one} for one in lists])
    for frame in (pa.table({"a": lists}), pl.DataFrame({"a": lists}), pd.DataFrame({"a": lists})):
        found = made.encode(frame)
        assert found.columns[0].is_array
        assert found.columns[0].codes.tolist() == expected.columns[0].codes.tolist()


class Other:
    columns = ("a",)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (Other(), "frame is of type Other: use a pyarrow Table"),
        (pl.DataFrame(DATA).lazy(), "frame is of type LazyFrame: use a pyarrow Table"),
    ],
)
def test_other_objects_are_refused_with_what_to_use(frame, said):
    with pytest.raises(ParameterError, match=said):
        WrappedTable.of(frame)
