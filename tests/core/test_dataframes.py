"""Tables where records are expected: the same batch as from a list of records."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stream_masker.core.dataframes import WrappedTable, as_records
from stream_masker.errors import ParameterError

CODES = ["x1", "x2", "y1", "x1", None, "y1"] * 20
DATA = {"a": CODES, "b": CODES[::-1], "age": [None, *map(float, range(1, 120))], "other": ["text"] * 120}
RECORDS = [{name: column[row] for name, column in DATA.items() if name != "other"} for row in range(120)]
FRAMES = [pa.table(DATA), pl.DataFrame(DATA), pd.DataFrame(DATA), pd.DataFrame(DATA, index=range(500, 620))]


@pytest.mark.parametrize("frame", FRAMES, ids=["pyarrow", "polars", "pandas", "index"])
def test_a_table_is_read_as_records(frame):
    assert as_records(frame, ("a", "b", "age")) == RECORDS


def test_lists_in_cells_are_array_attributes():
    lists = [["x1", "y1"], [], None]
    for frame in (pa.table({"a": lists}), pl.DataFrame({"a": lists}), pd.DataFrame({"a": lists})):
        assert as_records(frame, ("a",)) == [{"a": one} for one in lists]


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
