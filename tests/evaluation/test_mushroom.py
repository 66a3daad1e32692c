"""VICUS and Random on the data of the paper: Table 3 and Figures 5 and 7 of 2012.

The paper states neither the number of parts and their least size, nor the confidential attribute, nor the prior of the
intruder. With 4 parts of at least 2 values, equal priors, and the colour of the spore print as the confidential
attribute, the entropies agree with the printed ones to 0.06 bit (records) and 0.19 bit (confidential values). As in the
paper, the entropy of the confidential value is greater for Random than for VICUS in every case.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from support.data import MUSHROOM, data_file, mushroom
from support.nominal import batch_of, flat_taxonomies

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import RandomTransitions, Vicus
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import count_batch
from stream_masker.evaluation.co_occurrence import average_security, chi_squares, contingency
from stream_masker.evaluation.papers.reproduction import reproduction
from stream_masker.evaluation.report.page import Figure, ReportTable

pytestmark = pytest.mark.scheduled

CONFIDENTIAL = "spore_print_color"
COLOUR = MUSHROOM.index("cap_color")
BELOW = MUSHROOM.index("stalk_surface_below_ring")

TABLE_3 = {
    (2, 20): (11.9720, 12.0074, 2.0743, 2.4496),
    (5, 20): (11.7502, 11.7316, 1.8778, 2.1962),
    (10, 10): (11.6141, 11.5772, 1.8280, 2.0036),
    (10, 20): (11.5826, 11.5487, 1.7220, 1.9450),
    (10, 50): (11.5567, 11.5284, 1.6409, 1.9045),
}
"""(k1, k2): record entropy of VICUS and Random, confidential entropy of VICUS and Random."""


@cache
def file():
    records = mushroom()
    taxonomies = flat_taxonomies(records)
    return records, taxonomies, batch_of(records, taxonomies)


@cache
def made(kind, k1, k2):
    records, taxonomies, _ = file()
    mechanism = kind(
        taxonomies,
        threshold=0.6,
        c1=0.6,
        c2=0.4,
        k1=k1,
        k2=k2,
        parts=4,
        part_size=2,
        window=len(records),
        seed=b"s...............",
    )
    mechanism.learn_many(records)
    mechanism.calibrate()
    return mechanism


def masked(kind, k1, k2, number=0):
    batch = file()[2]
    return made(kind, k1, k2).mask_batch(batch, PositionKeys(b"s", f"file {number}", 0, np.arange(batch.size)))


def colour_and_surface(columns):
    """χ² of the pair in Figure 7."""
    sizes = [len(tau) for tau in file()[1].values()]
    pair = Batch(file()[2].size, (columns[COLOUR], columns[BELOW]))
    return chi_squares(count_batch(pair, [sizes[COLOUR], sizes[BELOW]]), [sizes[COLOUR], sizes[BELOW]])[0, 1]


@pytest.mark.parametrize(("k1", "k2"), list(TABLE_3))
def test_table_3(k1, k2):
    found = [
        average_security(made(kind, k1, k2), file()[2], masked(kind, k1, k2), confidential=CONFIDENTIAL)
        for kind in (Vicus, RandomTransitions)
    ]
    records, values = [s.record for s in found], [s.confidential for s in found]
    np.testing.assert_allclose(records, TABLE_3[k1, k2][:2], atol=0.07)
    np.testing.assert_allclose(values, TABLE_3[k1, k2][2:], atol=0.2)
    assert values[0] < values[1]


def test_entropy_decreases_with_the_knowledge_of_the_intruder():
    """Figure 5."""
    mechanism, batch, after = made(Vicus, 5, 20), file()[2], masked(Vicus, 5, 20)
    found = [average_security(mechanism, batch, after, confidential=CONFIDENTIAL, known=k).record for k in (1, 2, 3)]
    assert found == sorted(found, reverse=True)
    assert found[2] < found[0] - 1


def test_the_association_of_cap_colour_and_stalk_surface_equals_the_printed_one():
    """χ² of the original file is printed as 2711.8."""
    assert round(colour_and_surface(file()[2].columns), 1) == 2711.8


def large_sample(observed):
    """The test needs expected counts of which more than 80 % are above 5 and all are above 1."""
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
    return (expected > 5).mean() > 0.8 and expected.min() > 1


def test_seven_pairs_with_cap_colour_are_large_enough_samples():
    """The paper counts 7 of 21 attributes: the 23 without cap colour and the constant veil type."""
    sizes = [len(tau) for tau in file()[1].values()]
    pairs = count_batch(file()[2], sizes).pairs
    tables = [contingency(pair, sizes[j]) for (i, j), pair in pairs.items() if COLOUR in (i, j)]
    with_colour = [table for table in tables if min(table.shape) > 1]
    assert len(with_colour) == 21
    assert sum(large_sample(table) for table in with_colour) == 7


def test_vicus_preserves_the_association_better_than_random():
    """Figure 7, k1 = 5, k2 = 20: in 30 files, χ² is above 1500 for VICUS and below 1000 for Random.

    Here it is 1457 to 1655 and 740 to 919.
    """
    vicus = [colour_and_surface(masked(Vicus, 5, 20, k).columns) for k in range(5)]
    random = [colour_and_surface(masked(RandomTransitions, 5, 20, k).columns) for k in range(5)]
    assert min(vicus) > 1400
    assert max(random) < 1000


@pytest.fixture(scope="module")
def reproduced():
    """The blocks of ``stream-masker reproduce 2012 --data``."""
    (section,) = reproduction("2012", data_file("mushroom.csv.gz"))
    return section.blocks


def numbers(reproduced, title):
    """The numbers of each row of a table."""
    (table,) = [b for b in reproduced if isinstance(b, ReportTable) and b.title.startswith(title)]
    return {row[0]: [[float(n) for n in re.findall(r"[\d.]+", cell)] for cell in row[1:]] for row in table.rows}


def test_the_command_shows_table_3_beside_the_printed_figures(reproduced):
    rows = numbers(reproduced, "Table 3").values()
    assert [[theirs for _, theirs in row] for row in rows] == [list(printed) for printed in TABLE_3.values()]
    for row in rows:
        differences = [abs(ours - theirs) for ours, theirs in row]
        assert max(differences[:2]) < 0.06
        assert max(differences[2:]) < 0.19
        (vicus, _), (random, _) = row[:2]
        assert vicus < random


def test_the_command_shows_figure_5_for_one_two_three_and_all_attributes(reproduced):
    """21 attributes: the 23 without the confidential one and the constant veil type."""
    rows = numbers(reproduced, "Figure 5")
    assert list(rows) == ["1", "2", "3", "21"]
    assert rows["1"] == [cell[:1] for cell in numbers(reproduced, "Table 3")["k1 = 5, k2 = 20"]]
    for column in zip(*rows.values(), strict=True):
        assert list(column) == sorted(column, reverse=True)


def test_the_command_shows_figure_7_beside_the_printed_figures(reproduced):
    rows = numbers(reproduced, "Figure 7: χ² of cap-color and stalk-surface-below-ring")
    assert rows["original"] == [[2711.8, 2711.8]]
    (least, greatest, _), (_, random, _) = rows["VICUS"][0], rows["Random"][0]
    assert 1400 < least < 1500 < greatest
    assert random < 1000


def test_the_page_of_the_command_has_both_figures(reproduced):
    titles = [block.title for block in reproduced if isinstance(block, Figure)]
    assert [title.partition("2012: ")[2] for title in titles] == ["Figure 5)", "Figure 7)"]
