"""The stated signatures of kernels equal those that numba infers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import from_dtype, njit, typeof, types
from support.prepared import Prepared
from support.signatures import agrees, differences

from stream_masker.core.dtypes import Float64Array, Float64Cube, Int32Array, Int32Matrix


class Pair(NamedTuple):
    number: int
    row: Int32Array


class Wrong(NamedTuple):
    number: float


PAIR = typeof(Pair(1, np.zeros(2, np.int32)))


@pytest.mark.exhaustive
def test_every_kernel_that_prepare_calls_has_a_correct_signature(ready: Prepared):
    assert ready.wrong_signatures == []


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int, types.int64),
        (int, types.uint8),
        (int, types.literal(3)),
        (np.uint64, types.uint64),
        (float, types.float64),
        (bool, types.boolean),
        (None, types.none),
        (int | float, types.float64),
        (Int32Array, types.int32[::1]),
        (Int32Matrix, types.int32[:, ::1]),
        (Float64Cube, types.float64[:, :, ::1]),
        (np.ndarray[tuple[Any, ...], np.dtype[np.int16 | np.int64]], types.int16[::1]),
        (tuple[int, float], types.Tuple((types.int64, types.float64))),
        (Pair, PAIR),
    ],
)
def test_accepts_an_annotation_with_the_inferred_type(hint, kind):
    assert agrees(hint, kind)


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (Any, types.int64),
        (int, types.uint64),
        (int, types.float64),
        (int, types.boolean),
        (np.uint64, types.int64),
        (float, types.float32),
        (None, types.int64),
        (Int32Array, types.int64[::1]),
        (Int32Array, types.int32[:, ::1]),
        (Int32Matrix, types.int32[::1]),
        (Float64Array, types.float64),
        (tuple[int, int], types.Tuple((types.int64, types.float64))),
        (tuple[int], types.UniTuple(types.int64, 2)),
        (tuple[int, Int32Array], PAIR),
        (Pair, from_dtype(np.dtype(np.int64))),
    ],
)
def test_rejects_an_annotation_with_another_type(hint, kind):
    assert not agrees(hint, kind)


def test_a_wrong_signature_is_described():
    @njit
    def half(x: int, y: int) -> int:
        return x / y

    half(3, 2.0)
    assert list(differences(half)) == [
        f"{__name__}.test_a_wrong_signature_is_described.<locals>.half, y: <class 'int'>, but float64",
        f"{__name__}.test_a_wrong_signature_is_described.<locals>.half, return: <class 'int'>, but float64",
    ]


def test_a_wrong_field_is_described():
    @njit
    def number(wrong: Wrong) -> int:
        return wrong.number

    number(Wrong(1))
    assert list(differences(number)) == [f"{__name__}.Wrong.number: <class 'float'>, but int64"]
