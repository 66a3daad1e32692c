"""The exact channel of a transport tree over small windows, by literal enumeration of whole records."""

from __future__ import annotations

from itertools import product

import numpy as np

from stream_masker import SemanticTransport

SINKHORN_STEPS = 15
SINKHORN_ERROR = 1e-3
MAX_EXPONENT = 80.0


def rounded_coupling(source, target, kernel):
    """M(b* | b) of the coupling of two laws, straight from its description: Sinkhorn's iteration, then rounding.

    ``source``: (n,). ``target``: (m,). ``kernel``: (n, m).
    """
    psi, phi = target.copy(), np.zeros(source.size)
    for step in range(SINKHORN_STEPS):
        rows = kernel @ psi
        missing = np.abs(phi * rows - source).sum()
        phi = source / rows
        if step > 0 and missing < SINKHORN_ERROR:
            break
        psi = np.where(target > 0.0, target / (kernel.T @ phi), 0.0)
    phi = np.minimum(phi, source / (kernel @ psi))
    reached = psi * (kernel.T @ phi)
    psi = np.where(reached > target, psi * target / np.where(reached > 0.0, reached, 1.0), psi)
    rest = np.maximum(target - reached, 0.0)
    rows = kernel @ psi
    share = np.minimum(1.0, phi * rows / source)[:, None] if rest.any() else 1.0
    lacking = rest / rest.sum() if rest.any() else rest
    return share * kernel * psi / rows[:, None] + (1.0 - share) * lacking


def field_weights(field, squares, extra, power, least, record):
    """(k + 1, …): Z(s) times the probability of the masks of a field's record s, from the formula of the channel.

    By node: ``squares``, (k, k) sd²; ``extra``, (k, k) additional exponents, or None; ``record``, the index of the
    value, k for an absent one. ``power``: γ. ``least``: the rows of a written pair.
    """
    links = field.links
    axes = range(len(links.attributes))
    result = np.ones(links.sizes)
    for node in axes:
        size = len(squares[node])
        more = 0.0 if extra[node] is None else extra[node]
        exponents = field.sharpness[node] * squares[node] ** (power / 2.0) + more
        kernel = np.eye(size + 1)
        kernel[:size, :size] = np.exp(-np.minimum(MAX_EXPONENT, exponents))
        factor = kernel[record[node]] * (field.root_scale if node == 0 else 1.0)
        result = result * factor.reshape([-1 if axis == node else 1 for axis in axes])
    for node in axes[1:]:
        table, parent = links.tables[node - 1], links.parents[node]
        psi = np.zeros(table.shape)
        absent = (table.rows == table.shape[0] - 1) | (table.columns == table.shape[1] - 1)
        kept = absent | (links.counts[node - 1] >= least)
        psi[table.rows[kept], table.columns[kept]] = field.scales[node - 1][kept]
        shape = [links.sizes[axis] if axis in (node, parent) else 1 for axis in axes]
        result = result * (psi if parent < node else psi.T).reshape(shape)
    return result


class Enumeration:
    """The channel of a calibrated transport whose window has few values, as dense tables.

    * ``sizes``: of the attributes. ``edges``: (scalar, array). ``fields``: of scalars that are masked together.
    * ``links``: (parent, child) of all fields. ``lone``: the attributes that are in no field and no array of an edge.
    """

    def __init__(self, made: SemanticTransport) -> None:
        self._prepared = prepared = made._prepared_statistics()
        self.sizes = [len(values) for values in prepared.values]
        self.edges = [(edge.parent, edge.child) for edge in prepared.edges]
        self.fields = prepared.fields
        together = [field.links.attributes for field in self.fields]
        self.links = [
            (field.links.attributes[parent], field.links.attributes[node])
            for field in self.fields
            for node, parent in enumerate(field.links.parents)
            if node
        ]
        taken = {child for _, child in self.edges} | {j for nodes in together for j in nodes}
        self.lone = [j for j in range(len(self.sizes)) if j not in taken]
        self._powers = [squares ** (prepared.power / 2.0) for squares in prepared.squares]
        self._couplings = {}

    def alone(self, j):
        """(k, k): M(a* | a) of an attribute that is masked alone."""
        fit, extra = self._prepared.fits[j], self._prepared.alone_exponents(j)
        exponents = float(fit.sharpness[0]) * self._powers[j] + (0.0 if extra is None else extra)
        phi = np.where(fit.counts >= self._prepared.least, fit.phi, 0.0)
        weights = np.exp(-np.minimum(MAX_EXPONENT, exponents)) * phi
        return weights / weights.sum(axis=1, keepdims=True)

    def pair_counts(self, edge):
        """(k_A, k_B): the window's rows of each pair of an edge."""
        found = next(e for e in self._prepared.edges if (e.parent, e.child) == edge)
        table = np.zeros(found.table.shape)
        table[found.table.rows, found.table.columns] = found.counts
        return table

    def given(self, edge, a, new_a):
        """(k_B, k_B): M(b* | b, a, a*); rows of NaN for values that the window never has with a."""
        if (edge, a, new_a) not in self._couplings:
            self._couplings[edge, a, new_a] = self._given(edge, a, new_a)
        return self._couplings[edge, a, new_a]

    def _given(self, edge, a, new_a):
        child = edge[1]
        counts = self.pair_counts(edge)
        written = np.where(counts[new_a] >= self._prepared.least, counts[new_a], 0.0)
        if not counts[a].any() or not written.any():
            return self.alone(child)
        found = next(e for e in self._prepared.edges if (e.parent, e.child) == edge)
        own, new = np.flatnonzero(counts[a]), np.flatnonzero(counts[new_a])
        kernel = np.exp(
            -np.minimum(MAX_EXPONENT, found.sharpness * self._prepared.squares[child] ** (found.power / 2.0))
        )[np.ix_(own, new)]
        result = np.full((self.sizes[child],) * 2, np.nan)
        result[own] = 0.0
        result[np.ix_(own, new)] = rounded_coupling(
            counts[a, own] / counts[a].sum(), written[new] / written.sum(), kernel
        )
        return result

    def field_masks(self, field, record):
        """(k + 1, …): the probability of the masks of a field's record, straight from the formula of the channel.

        ``record``: the index of each node's value, k for an absent one.
        """
        nodes = field.links.attributes
        squares = [self._prepared.squares[j] for j in nodes]
        extra = [self._prepared.root_exponents(j) for j in nodes]
        weights = field_weights(field, squares, extra, self._prepared.power, self._prepared.least, record)
        return weights / weights.sum()

    def masks(self, record):
        """(k, …, k): the probability of all masks of a record, given as indices of values."""
        result = np.ones(self.sizes)
        for j in self.lone:
            result = result * self._along(self.alone(j)[record[j]], j)
        for field in self.fields:
            nodes = field.links.attributes
            masks = self.field_masks(field, [record[j] for j in nodes])[(slice(-1),) * len(nodes)]
            shape = [self.sizes[j] if j in nodes else 1 for j in range(len(self.sizes))]
            result = result * masks.transpose(np.argsort(nodes)).reshape(shape)
        for edge in self.edges:
            parent, child = edge
            rows = [self.given(edge, record[parent], new)[record[child]] for new in range(self.sizes[parent])]
            result = result * self._across(np.array(rows), edge)
        return result

    def _along(self, row, j):
        shape = [1] * len(self.sizes)
        shape[j] = -1
        return row.reshape(shape)

    def _across(self, table, edge):
        shape = [1] * len(self.sizes)
        for j in edge:
            shape[j] = self.sizes[j]
        return (table if edge[0] < edge[1] else table.T).reshape(shape)

    def law(self, seen=()):
        """(k, …, k): the law of records with a value of each attribute, of which the figures are.

        Records of fields are those of ``transport.field.records``; an element of an array depends on its scalar only.
        With an edge ``seen``, it is that of the rows that have both of its attributes.
        """
        result = np.ones(self.sizes)
        for j in self.lone:
            counts = self._prepared.fits[j].counts
            result = result * self._along(counts / counts.sum(), j)
        for problem in (prepared.problem for prepared in self._prepared.prepared_fields):
            nodes, records = problem.links.attributes, problem.records
            table = np.zeros(problem.links.sizes)
            table[tuple(records.indices.T)] = records.weights
            table = table[(slice(-1),) * len(nodes)].transpose(np.argsort(nodes))
            shape = [self.sizes[j] if j in nodes else 1 for j in range(len(self.sizes))]
            result = result * (table / table.sum()).reshape(shape)
        if len(seen) == 2:
            own = result.sum(axis=tuple(j for j in range(len(self.sizes)) if j != seen[0]))
            rows = self.pair_counts(seen).sum(axis=1)
            result = result * self._along(rows / rows.sum() / np.where(own > 0.0, own / own.sum(), 1.0), seen[0])
        for edge in self.edges:
            counts = self.pair_counts(edge)
            given = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
            result = result * self._across(given, edge)
        return result

    def best_guesses(self, law, seen):
        """For each attribute, the chance of the best guess of its value from some masks, under a law of records.

        ``seen``: the indices of the attributes whose masks are seen.
        """
        hidden = tuple(j for j in range(len(self.sizes)) if j not in seen)
        joint = [np.zeros((size, *(self.sizes[j] for j in range(len(self.sizes)) if j in seen))) for size in self.sizes]
        for record in product(*map(range, self.sizes)):
            if law[record] > 0.0:
                masks = law[record] * self.masks(record).sum(axis=hidden)
                for j, value in enumerate(record):
                    joint[j][value] += masks
        return [float(table.max(axis=0).sum()) for table in joint]

    def chances(self):
        """For each attribute, the chance of its best guess from what the target of a vulnerability is about."""
        law = self.law()
        result = [0.0] * len(self.sizes)
        for j in self.lone:
            result[j] = self.best_guesses(law, (j,))[j]
        for field in self.fields:
            found = self.best_guesses(law, field.links.attributes)
            for j in field.links.attributes:
                result[j] = found[j]
        for edge in self.edges:
            found = self.best_guesses(self.law(edge), edge)
            for j in edge:
                result[j] = max(result[j], found[j])
        return result

    def epsilon_of_values(self):
        """For each attribute, what it adds at most to the ε of a record."""
        result = [_greatest_ratio(self.alone(j)) for j in range(len(self.sizes))]
        for field in self.fields:
            for node, j in enumerate(field.links.attributes):
                extra = self._prepared.root_exponents(j)
                exponents = field.sharpness[node] * self._powers[j] + (0.0 if extra is None else extra)
                result[j] = max(result[j], 2.0 * min(MAX_EXPONENT, exponents.max()))
        for edge in self.edges:
            parent, child = edge
            for new_a in range(self.sizes[parent]):
                rows = np.concatenate([self.given(edge, a, new_a) for a in range(self.sizes[parent])])
                result[child] = max(result[child], _greatest_ratio(rows[~np.isnan(rows).any(axis=1)]))
        return result

    def epsilon_of_records(self, law):
        """The greatest ln ratio of the masks of two whole records of a law."""
        masks = np.array([self.masks(record).ravel() for record in zip(*np.nonzero(law), strict=True)])
        return _greatest_ratio(masks)


def _greatest_ratio(rows):
    written = rows.max(axis=0) > 0.0
    logs = np.log(rows[:, written])
    return float((logs.max(axis=0) - logs.min(axis=0)).max())
