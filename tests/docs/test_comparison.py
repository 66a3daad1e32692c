"""The comparison with other programs: what the page says of versions and of our own row, and the measures."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from support.documentation import DOCS, ROOT

sys.path.append(str(ROOT / "tests" / "benchmarks"))

from measuring import tables
from peers import measures, ontologies, privacy, streams
from peers.harness import INSIDE, cells

PAGE = (DOCS / "comparison.md").read_text()
PEERS = [*(method.peer for method in privacy.PEERS), *ontologies.PEERS]


def body(name: str) -> list[list[str]]:
    """The cells of a measured table, without its head."""
    return cells(tables(PAGE)[name])


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_is_pinned_and_on_the_page(peer):
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", pin) for pin in peer.pins)
    assert (INSIDE / peer.script).exists()
    assert peer.title in PAGE


@pytest.mark.parametrize("name", ["utility", "risk", "ontologies"])
def test_the_tables_have_the_columns_of_the_commands(name):
    head = {"utility": ("", *privacy.UTILITY), "risk": ("", *privacy.RISK), "ontologies": ontologies.HEAD}[name]
    assert tables(PAGE)[name].startswith(f"| {' | '.join(head)} |\n")
    assert all(len(row) == len(head) for row in body(name))


@pytest.mark.parametrize("peer", streams.PEERS, ids=lambda peer: peer.name)
def test_every_frame_is_pinned_and_has_a_script(peer):
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", pin) for pin in peer.pins)
    assert (INSIDE / peer.script).exists()


def test_cramers_v_of_one_column_with_itself_is_one_and_of_independent_ones_zero():
    rng = np.random.default_rng(0)
    column = np.repeat(np.arange(4), 250)
    assert measures.association(np.array([column, column])) == pytest.approx(1.0, abs=1e-3)
    assert measures.association(np.array([column, rng.permutation(column)])) < 0.1


def test_the_total_variation_is_half_the_sum_of_the_differences():
    assert measures.variation(np.array([1, 1, 2, 3]), np.array([1, 2, 2, 4])) == pytest.approx(0.5)
    assert measures.variation(np.array([7]), np.array([8])) == 1.0


def test_an_attacker_undoes_a_map_that_the_trials_show():
    truth = np.array([100, 100, 101, 102], np.int32)
    mask = {100: 300, 101: 301, 102: 301}
    masked = np.array([mask[code] for code in truth.tolist()], np.int32)
    assert measures.attack(truth, [masked], masked)["code"] == 0.75
    constant = np.full(4, 300, np.int32)
    assert measures.attack(truth, [constant], constant)["code"] == 0.5


def test_hashes_are_matched_by_their_frequency():
    codes = np.array([5, 5, 5, 6, 6, 7], np.int32)
    assert privacy.matched(codes, ["x", "x", "x", "a", "a", "k"]).tolist() == codes.tolist()


def test_the_chosen_epsilon_gives_the_attacker_the_given_chance():
    codes = np.repeat(np.arange(100, 110, dtype=np.int32), 10)
    records = measures.Records(np.array([codes, codes]), np.zeros(100, np.int64), np.zeros(100, np.int64))
    (method,) = [method for method in privacy.PEERS if method.peer.name == "opendp"]
    epsilon = privacy.settled(records, method, 0.5)["epsilon"]
    assert np.exp(epsilon) / (np.exp(epsilon) + 9) == pytest.approx(0.5, abs=1e-6)


def test_uniques_and_groups_are_counted_by_pairs():
    before = measures.Records(np.array([[1, 1, 2, 3], [1, 1, 2, 3]], np.int32), np.zeros(4, int), np.zeros(4, int))
    after = before.with_codes(np.array([[1, 1, 2, 2], [1, 1, 2, 2]], np.int32))
    assert measures.uniques_kept(before, after) == 0.5
    assert measures.least_group(after) == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["privacy", "ontologies", "streams"])
def test_every_command_of_the_page_starts(command):
    path = ROOT / "tests" / "benchmarks" / "peers" / f"{command}.py"
    assert f"python {path.relative_to(ROOT)}\n" in PAGE
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
