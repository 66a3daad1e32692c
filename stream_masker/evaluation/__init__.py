"""Measures of what masking preserves and what it discloses, and the tables of the papers on any data set.

Tables, one module per paper: ``utility_table`` (2017), ``swapping`` (2019) and ``sse`` (2013). Each masks a data set
with ``dataset`` and prints its rows as Markdown. Measures on their own: ``linkage`` (record linkage), ``entropy`` (the
uncertainty of an intruder) and ``chi_square`` (associations between attributes).
"""
