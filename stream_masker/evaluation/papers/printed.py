"""The figures that the papers print, by table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PrintedFigures = Mapping[str, tuple[float, ...]]
"""The figures of a table by metric, one for each column."""


def figures(text: str) -> dict[str, tuple[float, ...]]:
    """Parse lines that consist of a metric, a colon and figures."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    return {name.strip(): tuple(map(float, values.split())) for name, _, values in lines}


class PrintedTable(NamedTuple):
    """A table: what it is of, such as the data set and the method, and its figures."""

    of: tuple[str, ...]
    figures: PrintedFigures


def tables(text: str) -> dict[str, PrintedTable]:
    """Parse tables, each of which begins with a line ``# name, of, of`` followed by the lines of ``figures``."""
    parts = [part.split("\n", maxsplit=1) for part in text.split("# ")[1:]]
    headed = [(head.split(", "), lines) for head, lines in parts]
    return {name: PrintedTable(tuple(of), figures(lines)) for (name, *of), lines in headed}


def compared(ours: float, theirs: float, digits: int = 2) -> str:
    """Return a measure followed by the printed figure in parentheses."""
    return f"{ours:.{digits}f} ({theirs:.{digits}f})"


NOISE_ALPHAS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels α of the columns of 2017's tables."""

TABLE_1_OF_2017: PrintedFigures = figures("""
sVar(a): 0.22
sVar(b): 0.24
sdCov(a, b): 0.26
sdCor(a, b): 0.94
""")

TABLE_6_OF_2017: PrintedFigures = figures("""
sVar(a): 0.15
sVar(b): 0.07
sdCov(a, b): 0.19
sdCor(a, b): 0.88
""")

NOISE_TABLES = tables("""
# Table 2, Dataset1, Uncorrelated-Algorithm1
mean moved a: 0.20 0.20 0.20 0.20
sVar a: 0.24 0.24 0.25 0.27
RMSE a: 0.23 0.31 0.38 0.49
target a: 0.15 0.25 0.34 0.48
mean moved b: 0 0 0 0.18
sVar b: 0.23 0.24 0.26 0.30
RMSE b: 0.19 0.30 0.37 0.50
target b: 0.15 0.27 0.35 0.51
sdCov: 0.15 0.11 0.09 0.08
sdCor: 0.78 0.65 0.57 0.38
# Table 3, Dataset1, Correlated-Algorithm1
mean moved a: 0.20 0.20 0.20 0.20
sVar a: 0.24 0.24 0.26 0.29
RMSE a: 0.24 0.33 0.40 0.51
target a: 0.17 0.28 0.37 0.52
mean moved b: 0 0.18 0.45 0.45
sVar b: 0.22 0.23 0.24 0.28
RMSE b: 0.20 0.30 0.38 0.49
target b: 0.17 0.28 0.37 0.52
sdCov: 0.15 0.12 0.10 0.09
sdCor: 0.82 0.73 0.69 0.59
# Table 4, Dataset1, Correlated-Algorithm2
mean moved a: 0.20 0.20 0.20 0.20
sVar a: 0.24 0.26 0.28 0.32
RMSE a: 0.25 0.35 0.41 0.52
target a: 0.17 0.28 0.37 0.52
mean moved b: 0.18 0.18 0.18 0.45
sVar b: 0.23 0.25 0.27 0.31
RMSE b: 0.22 0.32 0.40 0.51
target b: 0.17 0.28 0.37 0.52
sdCov: 0.16 0.13 0.11 0.09
sdCor: 0.84 0.76 0.71 0.59
# Table 7, Dataset2, Correlated-Algorithm1
mean moved a: 0.33 0 0 0
sVar a: 0.18 0.19 0.20 0.23
RMSE a: 0.23 0.32 0.40 0.50
target a: 0.16 0.28 0.37 0.52
mean moved b: 0 0 0 0
sVar b: 0.08 0.09 0.10 0.14
RMSE b: 0.15 0.24 0.30 0.41
target b: 0.13 0.23 0.29 0.40
sdCov: 0.11 0.08 0.07 0.06
sdCor: 0.68 0.56 0.48 0.42
# Table 8, Dataset2, Correlated-Algorithm3
mean moved a: 0.23 0.23 0.23 0.23
sVar a: 0.20 0.22 0.23 0.26
RMSE a: 0.27 0.34 0.41 0.51
target a: 0.16 0.28 0.37 0.52
mean moved b: 0 0 0 0
sVar b: 0.08 0.11 0.13 0.20
RMSE b: 0.16 0.25 0.30 0.41
target b: 0.13 0.23 0.29 0.40
sdCov: 0.12 0.09 0.08 0.07
sdCor: 0.70 0.60 0.54 0.47
""")
"""Tables of 2017: for each, the data set, the method, and the figures by α."""

TABLE_5_OF_2017: PrintedFigures = figures("""
Naive distortion: 0.20 0.27
Probabilistic distortion: 0.04 0
Uncorrelated-Algorithm1: 0.20 0.18
Correlated-Algorithm1: 0.20 0.45
Correlated-Algorithm2: 0.20 0.45
""")
"""sd(sMean*, sMean) of a and b at α = 1."""

TABLE_1_OF_2016 = tables("""
# Uncorrelated-Algorithm1
mean moved a: 0.20 0.20
variance error a: 0.02 0.07
RMSE a: 0.28 0.36
target a: 0.21 0.31
mean moved b: 0 0
variance error b: 0.05 0.09
RMSE b: 0.24 0.34
target b: 0.21 0.31
covariance error: 0.18 0.26
# Correlated-Algorithm2
mean moved a: 0 0.20
variance error a: 0.01 0.04
RMSE a: 0.30 0.39
target a: 0.23 0.34
mean moved b: 0.18 0.18
variance error b: 0.05 0.08
RMSE b: 0.28 0.37
target b: 0.24 0.34
covariance error: 0.17 0.25
""")
"""The figures by method, for α = 0.2 and 0.4."""

TABLE_1_OF_2019: PrintedFigures = figures("""
sdVar(a): 0.1148
sdVar(b): 0.1240
sdCor(a, b): 0.4595
""")

SWAPPING_TABLES = tables("""
# Table 2, Dataset1, Algorithm 1
RMSE a: 0.4558 0.5423 0.5560 0.5823 0.6018 0.6083
RMSE b: 0.3562 0.3712 0.4118 0.4166 0.4650 0.5016
sdCor a b: 0.2705 0.2689 0.2649 0.2647 0.2628 0.2520
# Table 3, Dataset1, Algorithm 2
RMSE a: 0.1439 0.1887 0.2300 0.2782 0.3513 0.4062
RMSE b: 0.0544 0.0776 0.1014 0.1413 0.2153 0.2941
sdCor a b: 0.4191 0.4092 0.4039 0.3648 0.3235 0.2800
# Table 4, Dataset1, Algorithm 3
RMSE a: 0.1966 0.2707 0.3130 0.3659 0.4145 0.4656
RMSE b: 0.0920 0.1433 0.1613 0.2083 0.2697 0.3745
sdCor a b: 0.4567 0.4410 0.4363 0.4160 0.3826 0.3145
# Table 5, Dataset2, Algorithm 3
RMSE a: 0 0.0129 0.0336 0.0749 0.1965 0.3750
RMSE b: 0 0.0288 0.0810 0.1486 0.2300 0.3218
sdCor a b: 0.6392 0.6383 0.6371 0.6238 0.5765 0.4658
# Table 6, Dataset3, Algorithm 3
RMSE a: 0 0.0106 0.0322 0.0866 0.2412 0.3951
RMSE b: 0 0.0309 0.0890 0.1653 0.2409 0.3640
RMSE c: 0.0011 0.0579 0.1649 0.2948 0.4174 0.5035
sdCor a b: 0.6392 0.6373 0.6319 0.6185 0.5276 0.3753
sdCor a c: 0.4229 0.4220 0.4191 0.4031 0.3090 0.2291
sdCor b c: 0.3703 0.3644 0.3577 0.3432 0.2828 0.2118
""")
"""Tables of 2019: for each, the data set, the method, and the figures by k."""

SSE_TABLES = tables("""
# Table 2, discharge neoplasm
classic: 7589 12121 13722 14517 14989 15308 15550 15757 15896 15981
semantic: 7515 10892 11852 12373 12670 12927 13064 13193 13281 13345
# Table 3, discharge digestive
classic: 51556 88047 101141 107804 111781 114321 116240 117663 118805 119688
semantic: 51556 77478 85827 89896 92616 94442 95873 96894 97642 98321
# Table 4, diagnosis neoplasm
classic: 242 858 1465 2018 2710 3154 3822 4012 4570 4846
semantic: 150 280 435 545 667 785 904 1015 1136 1185
# Table 5, diagnosis digestive
classic: 103 310 512 701 912 1042 1197 1490 1642 1789
semantic: 103 206 323 439 560 621 708 851 945 1038
""")
"""SSE(DIAG_P) of 2013, by k."""

PRINTED_MARGINALITIES = (6.94, 6.22, 6.22, 6.14, 5.07, 5.07, 5.30, 5.30, 5.88)
"""The marginalities of Table 1 of 2013."""

UNREACHABLE_PAIRS = (frozenset({"alzheimer", "meningitis"}), frozenset({"alzheimer", "sclerosis"}))
UNREACHABLE_DISTANCE = 0.65
"""The pairs of 2013's Example 1 whose printed distance no taxonomy has that gives the other distances."""

SIMILARITIES = {
    "S′": """
1.000 0.667 0.000 0.000 0.000 0.000
0.667 1.000 0.000 0.000 0.000 0.258
0.000 0.000 1.000 0.333 0.000 0.258
0.000 0.000 0.333 1.000 0.667 0.258
0.000 0.000 0.000 0.667 1.000 0.516
0.000 0.258 0.258 0.258 0.515 1.000
""",
    "S″": """
1.000 1.000 0.000 0.000 0.000 0.258
1.000 1.000 0.000 0.000 0.000 0.258
0.000 0.000 1.000 1.000 1.000 0.775
0.000 0.000 1.000 1.000 1.000 0.882
0.000 0.000 1.000 1.000 1.000 0.882
0.258 0.258 0.775 0.882 0.882 1.000
""",
    "S": """
1.000 0.800 0.000 0.000 0.000 0.103
0.800 1.000 0.000 0.000 0.000 0.258
0.000 0.000 1.000 0.600 0.400 0.465
0.000 0.000 0.600 1.000 0.800 0.508
0.000 0.000 0.400 0.800 1.000 0.663
0.103 0.258 0.465 0.508 0.663 1.000
""",
}
"""Table 2 of 2012: the clients of the bank example."""

ENTROPIES: Mapping[tuple[float, float], tuple[float, float, float, float]] = {
    (2.0, 20.0): (11.9720, 12.0074, 2.0743, 2.4496),
    (5.0, 20.0): (11.7502, 11.7316, 1.8778, 2.1962),
    (10.0, 10.0): (11.6141, 11.5772, 1.8280, 2.0036),
    (10.0, 20.0): (11.5826, 11.5487, 1.7220, 1.9450),
    (10.0, 50.0): (11.5567, 11.5284, 1.6409, 1.9045),
}
"""Table 3 of 2012, by k1 and k2: the record entropies of VICUS and Random, then their confidential entropies."""

ASSOCIATIONS: Mapping[str, str] = {"original": "2711.8", "VICUS": "above 1500", "Random": "below 1000"}
"""Figure 7 of 2012: χ² of cap-color and stalk-surface-below-ring in the original file, and in 30 masked files."""
