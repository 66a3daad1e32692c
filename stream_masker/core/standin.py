"""Stand-in until the table lands."""
from __future__ import annotations
import numpy as np

F = np.uint64(0x9E3779B97F4A7C15)

class DistanceTable:
    @classmethod
    def build(cls, distance, anchors, previous=None):
        self = cls()
        anchors = np.unique(np.append(anchors, 0)).astype(np.int32)
        if previous is not None and previous.distance == distance and np.array_equal(previous.anchors, anchors):
            return previous
        m = len(distance.taxonomy)
        self.distance, self.anchors = distance, anchors
        h = np.zeros(m, np.uint64)
        D = np.empty((anchors.size, m), np.float64)
        for i, a in enumerate(anchors.tolist()):
            D[i] = distance.to_all(a)
            h ^= D[i].view(np.uint64); h *= F; h ^= h >> np.uint64(29)
        single = np.zeros(m, bool); single[anchors] = True
        h[single] = np.arange(anchors.size, dtype=np.uint64)
        _, first, inverse = np.unique(h, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        self.class_of = rank[inverse.reshape(-1)].astype(np.int32)
        c = first.size
        self.members = np.argsort(self.class_of, kind="stable").astype(np.int32)
        self.starts = np.concatenate(([0], np.cumsum(np.bincount(self.class_of, minlength=c)))).astype(np.int32)
        reps = self.members[self.starts[:-1]]
        D = D[:, reps]
        self.levels = np.unique(np.append(D, 0.0))
        t = np.uint8 if self.levels.size <= 256 else np.uint16
        self.rows = np.searchsorted(self.levels, D).astype(t)
        self._at = np.full(m, -1, np.int32); self._at[anchors] = np.arange(anchors.size)
        self._lru = {}
        return self
    def index_of(self, positions):
        return self._at[positions]
    def row(self, position):
        i = self._at[position]
        if i >= 0: return self.rows[i]
        if position not in self._lru:
            d = self.distance.to_all(int(position))[self.members[self.starts[:-1]]]
            s = np.clip(np.searchsorted(self.levels, d), 0, self.levels.size - 1)
            self._lru[position] = s.astype(self.rows.dtype)
        return self._lru[position]
