"""dcor: the distance correlation of two columns, from the matrices of their distances."""

from __future__ import annotations

import json
import math

import dcor
import numpy as np
from timing import seconds

matrices = [np.load(f"matrix-{j}.npy") for j in range(2)]


def correlation() -> float:
    a, b = (dcor.double_centered(matrix) for matrix in matrices)
    product, first, second = (dcor.mean_product(x, y) for x, y in ((a, b), (a, a), (b, b)))
    return math.sqrt(max(0.0, product) / math.sqrt(first * second))


correlation()
print(json.dumps({"time": min(seconds(correlation) for _ in range(3)), "value": correlation()}))
