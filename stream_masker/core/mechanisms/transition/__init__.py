"""Mechanisms that replace each value independently, by transition probabilities between values.

* ``base``: the common parts of these mechanisms: one drawer or one transition per attribute.
* ``trie``: the values that masked values are drawn from, and consistent draws from them.
* ``transitions``: transition probabilities of one attribute, in forms that allow fast draws, and the draws.
* ``serialization``: arrays in a mechanism's model, as JSON texts.
* ``pram``: PRAM, with given Markov matrices or invariant ones. ``baselines``: those of 2017.
* ``vicus``: VICUS (2012) and its baseline.
"""
