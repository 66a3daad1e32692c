"""What the default tells and keeps beside its promise: tables of the real discharges.

``python tests/benchmarks/bench_promise.py [costs] [least] [windows] [unlinked] [fields] [--table FILE]``; all by
default.

* ``costs``: the processor time until the first statistics of discharges are in force, and of the next ones.
* ``least``: what rare pairs tell, by the number of patients that a written pair has.
* ``windows``: the figures of small windows.
* ``unlinked``: pairs that the star does not link: two of three diagnoses, and elements of an array among themselves.
* ``fields``: what an attacker learns from kept fields outside the context. ``--table``: the original table of the
  UCI repository, which has more fields than the excerpt of the tests.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from measuring import arguments, once, table
from support.data import discharges, icd9cm
from support.kept_fields import FIELDS, guess_with_fields
from support.rare_pairs import attack_rare_pairs
from support.real_codes import as_batch, correlation_of, real_codes, real_rows

from stream_masker import SemanticTransport
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import Counts

SEED = b"a seed of sixteen bytes"
PAIR = ("diag_1", "diag_2")
TRIPLE = (*PAIR, "diag_3")
LEASTS = (1, 2, 3, 5)
SIZES = {300: 10, 1_000: 6, 10_000: 2, 100_000: 1}
"""The sizes of windows, and how many windows of each are measured."""


def main() -> None:
    given = arguments(__doc__, {"tables": {"nargs": "*", "choices": [*TABLES, []]}, "--table": {"type": Path}})
    for name in given.tables or TABLES:
        head, rows = TABLES[name]
        table(name, head, map(rounded, fields_rows(given.table) if name == "fields" else rows()))


def rounded(row: Iterable[object]) -> list[object]:
    """Return a row whose shares have three digits after the point."""
    return [f"{figure:.3f}" if isinstance(figure, float) else figure for figure in row]


def patients() -> np.ndarray:
    """(n,) int64: the patient of each discharge with both diagnoses."""
    return np.array([int(discharges()[k]["patient_nbr"]) for k in real_rows(PAIR)])


def calibrated(batch: Batch, keys: np.ndarray | None = None, **parameters: object) -> SemanticTransport:
    """Return the default with the statistics of a batch; ``keys``: (n,) the patient of each record."""
    tau = icd9cm().taxonomy()
    names = TRIPLE[: len(batch.columns)]
    made = SemanticTransport(dict.fromkeys(names, tau), window=batch.size, seed=SEED, **parameters)
    columns = [_records(column, tau.ids) for column in batch.columns]
    records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    made.learn_many(records, keys=None if keys is None else [b"%d" % key for key in keys.tolist()])
    made.calibrate()
    return made


def _records(column: Column, ids: tuple[str, ...]) -> list[object]:
    names = [ids[code] for code in column.codes.tolist()]
    if column.offsets is None:
        return list(names)
    return [names[first:last] for first, last in pairwise(column.offsets.tolist())]


def masked(made: SemanticTransport, batch: Batch, number: int) -> Batch:
    """Return a batch as masked under one secret."""
    keys = PositionKeys(b"secret %d of many bytes" % number, "t", 0, np.arange(batch.size))
    return Batch(batch.size, made.mask_batch(batch, keys).columns)


def correlation(batch: Batch) -> float:
    """SdCor of both attributes."""
    return correlation_of(np.array([column.codes for column in batch.columns]))


def cost_rows() -> Iterator[list[object]]:
    """A twentieth of the next window is new. Kernels are compiled before."""
    codes, tau = real_codes(PAIR)[:, :101_000], icd9cm().taxonomy()
    for label, batch in (("two codes", as_batch), ("a code and a list of one", as_lists)):
        windows = [batch(codes[:, :3_000]), batch(codes[:, :-5_000]), batch(codes[:, 5_000:])]
        small, first, second = (count_batch(each, [len(tau)] * 2) for each in windows)
        made, other = (SemanticTransport(dict.fromkeys(PAIR, tau), seed=SEED) for _ in range(2))
        other.compute(small, version=1)
        cold = once(partial(put_in_force, made, first))
        yield [label, cold, once(partial(made.compute, second, version=2))]


def put_in_force(made: SemanticTransport, counts: Counts) -> None:
    made.restore(made.snapshot_of(made.compute(counts, version=1)))


def as_lists(codes: np.ndarray) -> Batch:
    """A batch whose secondary codes are lists of one."""
    first, second = (np.ascontiguousarray(column, np.int32) for column in codes)
    return Batch(first.size, (Column(first), Column(second, np.arange(first.size + 1))))


def least_rows() -> Iterator[list[object]]:
    for least in LEASTS:
        yield [least, *least_figures(least)]


def least_figures(least: int) -> list[float]:
    """The window has the discharges of half of the patients; the attacker has those of the others."""
    codes, persons = real_codes(PAIR), patients()
    half = persons % 2 == 0
    window = as_batch(codes[:, half])
    made = calibrated(window, persons[half], least=least)
    seen, told = masked(made, window, 1), made.disclosure()
    columns = np.array([column.codes for column in seen.columns])
    attack = attack_rare_pairs(codes[:, half], persons[half], columns, codes[:, ~half], len(icd9cm().taxonomy()))
    return [
        *(told.given_record[name] for name in PAIR),
        max(told.certainty.values()),
        told.rmse[PAIR[0]],
        *map(correlation, (window, seen)),
        attack.named,
        attack.named_before,
        attack.proven,
    ]


def window_rows() -> Iterator[list[object]]:
    for size in SIZES:
        yield [f"{size:,}", *window_figures(size)]


def window_figures(size: int) -> list[float]:
    """The means over the windows of a size."""
    return list(np.mean([of_window(size, number) for number in range(SIZES[size])], axis=0).tolist())


def of_window(size: int, number: int) -> list[float]:
    """The figures of the default with a window of discharges that are drawn at random."""
    codes, persons = real_codes(PAIR), patients()
    order = np.random.default_rng(number).permutation(persons.size)
    inside, rest = order[:size], order[size : size + 20_000]
    window = as_batch(codes[:, inside])
    made = calibrated(window, persons[inside])
    told, risk = made.disclosure(), made.risk(draws=200)
    masks = [masked(made, window, k) for k in range(max(1, 10_000 // size))]
    after = float(np.mean([*map(correlation, masks)]))
    following = rest if rest.size else inside
    new = float(np.mean(~np.isin(codes[0, following], codes[0, inside])))
    chapter = risk.strongest[PAIR[0]].levels["chapter"].vulnerability
    return [
        risk.value[PAIR[0]].prior,
        told.given_record[PAIR[0]],
        chapter,
        max(told.certainty.values()),
        risk.unchanged[PAIR[0]],
        told.rmse[PAIR[0]],
        told.rmse[PAIR[1]],
        correlation(window),
        after,
        new,
    ]


def unlinked_rows() -> Iterator[list[object]]:
    codes = real_codes(TRIPLE)
    scalars = as_batch(codes)
    made = calibrated(scalars)
    after = masked(made, scalars, 1)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        yield [f"`{TRIPLE[i]}`, `{TRIPLE[j]}`", *_pair_figures(scalars, after, i, j)]
    elements = Column(codes[1:].T.ravel().copy(), offsets_from_lengths(np.full(codes.shape[1], 2)))
    events = Batch(codes.shape[1], (Column(codes[0].copy()), elements))
    after = _flat(masked(calibrated(events), events, 1))
    for i, j in ((0, 1), (1, 2)):
        label = "an element and the scalar" if i == 0 else "two elements of an array"
        yield [label, *_pair_figures(scalars, after, i, j)]


def _flat(events: Batch) -> Batch:
    """Return events with two elements each as records of three scalars."""
    first, elements = (column.codes for column in events.columns)
    return as_batch(np.array([first, *elements.reshape(-1, 2).T]))


def _pair_figures(before: Batch, after: Batch, i: int, j: int) -> list[object]:
    """SdCor and the share of equal codes, each before and after; and the share of records whose codes became equal."""
    pairs = [Batch(batch.size, (batch.columns[i], batch.columns[j])) for batch in (before, after)]
    equal = [pair.columns[0].codes == pair.columns[1].codes for pair in pairs]
    return [*map(correlation, pairs), *(float(codes.mean()) for codes in equal), float((equal[1] & ~equal[0]).mean())]


def fields_rows(path: Path | None = None) -> Iterator[list[object]]:
    """What masks tell of the principal diagnosis, without and with kept fields.

    ``path``: of a table with more fields.
    """
    yield [
        ", ".join(f"`{name}`" for name in FIELDS),
        *fields_figures([discharges()[k] for k in real_rows(PAIR)], FIELDS),
    ]
    if path is not None:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as lines:
            whole = list(csv.DictReader(lines))
        names = tuple(name for name in whole[0] if name not in {*TRIPLE, "encounter_id", "patient_nbr"})
        yield [", ".join(names), *fields_figures([whole[k] for k in real_rows(PAIR)], names)]


def fields_figures(rows: Sequence[Mapping[str, str]], names: Sequence[str], tested: int = 20_000) -> list[float]:
    batch = as_batch(real_codes(PAIR))
    made = calibrated(batch, patients())
    return list(guess_with_fields(made, rows, names, masked(made, batch, 1), tested))


LEAST_HEAD = ["least", "V, principal", "V, secondary", "greatest posterior", "RMSE", "sdCor", "masked"]
LEAST_HEAD += ["named", "named before", "proven"]
WINDOW_HEAD = ["records", "prior", "V", "chapter", "greatest posterior", "unchanged", "RMSE, principal", "secondary"]
WINDOW_HEAD += ["sdCor", "masked", "new codes of later records"]
UNLINKED_HEAD = ["pair", "sdCor", "masked", "equal codes", "masked", "equal codes that were different"]
FIELDS_HEAD = ["fields", "guesses", "masks", "masks and fields", "fields", "standard error of the difference"]
TABLES: dict[str, tuple[list[str], Callable[[], Iterator[list[object]]]]] = {
    "costs": (["window", "first, s", "next, s"], cost_rows),
    "least": (LEAST_HEAD, least_rows),
    "windows": (WINDOW_HEAD, window_rows),
    "unlinked": (UNLINKED_HEAD, unlinked_rows),
    "fields": (FIELDS_HEAD, fields_rows),
}

if __name__ == "__main__":
    main()
