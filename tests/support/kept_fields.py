"""What an attacker learns of a masked diagnosis from kept fields of its record that are no context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from support.data import icd9cm
from support.downstream import ancestors_at
from support.real_codes import as_batch, real_codes

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch
from stream_masker.core.risk.records import Tuples
from stream_masker.core.statistics import count_batch

PAIR = ("diag_1", "diag_2")
FIELDS = ("age", "time_in_hospital", "num_medications", "readmitted")
"""The fields of the excerpt that say something of the patient."""

DEPTHS = (2, 3, 4)
"""The depths of the concepts from which a code learns the law of a field, the code itself last."""

TRIALS = 60.0
"""How many records the law of a field given the next higher concept counts for."""

POWERS = (0.2, 0.35, 0.5, 0.7, 1.0)
"""Exponents of the fields' likelihood, of which the best for the records that are learned from is taken: fields depend
on each other."""

LEARNED = 4_000
"""The number of learned records on which the exponent is chosen."""


def guess_with_fields(
    made: SemanticTransport, rows: Sequence[Mapping[str, str]], names: Sequence[str], masks: Batch, tested: int = 20_000
) -> tuple[int, float, float, float, float]:
    """Guess the principal diagnosis of masked records, whose patients are not those that the guesses are learned from.

    * ``made``: the default with the statistics of the discharges with both diagnoses. ``rows``: their fields.
      ``names``: the fields that the attacker reads. ``masks``: the discharges as masked.
    * Without fields, a guess is the most probable diagnosis given both masks, from the exact channel. With fields its
      probability is multiplied by that of each field given the diagnosis.

    Returns the number of guesses; the share of right ones from both masks, from masks and fields, and from fields
    alone; and the standard error of the difference of the first two.
    """
    codes = real_codes(PAIR)[0]
    persons = np.array([int(row["patient_nbr"]) for row in rows])
    order = np.random.default_rng(3).permutation(persons.size)
    learned, others = (order[persons[order] % 2 == half] for half in (0, 1))
    fields, posterior = FieldLaws(rows, names, codes, learned), Posterior(made, masks)

    def right(records: np.ndarray, power: float, *, masked: bool = True) -> np.ndarray:
        found = [posterior.guess(k, power * fields.logs(k), masked=masked) for k in records.tolist()]
        return np.asarray(np.array(found) == codes[records], np.float64)

    power = max(POWERS, key=lambda p: right(learned[:LEARNED], p).mean())
    tried = others[:tested]
    plain, both, alone = right(tried, 0.0), right(tried, power), right(tried, power, masked=False)
    error = float((both - plain).std() / np.sqrt(tried.size))
    return tried.size, float(plain.mean()), float(both.mean()), float(alone.mean()), error


class Posterior:
    """The probabilities of the window's principal diagnoses given both masks of a record."""

    def __init__(self, made: SemanticTransport, masks: Batch) -> None:
        counts = count_batch(as_batch(real_codes(PAIR)), [len(icd9cm().taxonomy())] * 2)
        sizes = (len(icd9cm().taxonomy()),) * 2
        self._tuples = Tuples.of(counts, (0, 1), sizes)
        law = made.mask_law(self._tuples, (), counts)
        assert law is not None
        self._law = law
        self.values, self._index = np.unique(self._tuples.codes[0], return_inverse=True)
        self._prior = np.log(np.bincount(self._index, self._tuples.prior))
        self._masks = np.array([column.codes for column in masks.columns])
        self._known: dict[tuple[int, int], np.ndarray] = {}

    def guess(self, record: int, evidence: np.ndarray, *, masked: bool) -> int:
        """Return the code that is most probable, given its masks or not; ``evidence``: (values,) logarithms of a
        likelihood."""
        pair = (int(self._masks[0, record]), int(self._masks[1, record]))
        if masked and pair not in self._known:
            joint = self._tuples.prior * self._law.likelihood(pair)
            with np.errstate(divide="ignore"):
                self._known[pair] = np.log(np.bincount(self._index, joint))
        return int(self.values[np.argmax((self._known[pair] if masked else self._prior) + evidence)])


class FieldLaws:
    """The law of each field given a principal diagnosis, learned from some of the records.

    A diagnosis of few records has nearly the law of the concepts above it.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, str]], names: Sequence[str], codes: np.ndarray, learned: np.ndarray
    ) -> None:
        values = np.unique(codes)
        above = [ancestors_at(icd9cm().taxonomy(), depth)[values] for depth in DEPTHS]
        levels = [*(np.where(found < 0, values, found) for found in above), values]
        place = np.searchsorted(values, codes[learned])
        self._laws, self._kinds = [], []
        for name in names:
            kinds, kind = np.unique([row[name] for row in rows], return_inverse=True)
            counts = np.zeros((values.size, kinds.size))
            np.add.at(counts, (place, kind[learned]), 1.0)
            law = np.tile((counts.sum(axis=0) + 1.0) / (counts.sum() + kinds.size), (values.size, 1))
            for level in levels:
                group = np.unique(level, return_inverse=True)[1]
                totals = np.zeros((group.max() + 1, kinds.size))
                np.add.at(totals, group, counts)
                law = (totals[group] + TRIALS * law) / (totals[group].sum(axis=1, keepdims=True) + TRIALS)
            self._laws.append(np.log(law).T)
            self._kinds.append(kind)

    def logs(self, record: int) -> np.ndarray:
        """(values,): the logarithm of the probability of a record's fields given each diagnosis."""
        return np.asarray(sum(law[kind[record]] for law, kind in zip(self._laws, self._kinds, strict=True)))
