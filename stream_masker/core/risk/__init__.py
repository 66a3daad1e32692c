"""Disclosure risk, computed from a mechanism's transition probabilities.

The attacker knows the mechanism, its parameters, the statistics in force, the law of the window as prior, and the
masked records; not the secret.

* ``classes``: concepts that are equivalent as masked values, so that a taxonomy of any size has few columns.
* ``channel``: the transition probabilities of one attribute, P(a* | a); its vulnerability, entropy, ε and others.
* ``records``: the law of the masks of a whole record, given the record.
* ``sampling``: the measures of whole records, by Rao–Blackwell Monte Carlo with a stated bound.
* ``groups``: the transition probabilities of mechanisms that mask groups, estimated from random groups.
* ``repeats``: the vulnerability after several masks of a value.
* ``sensitive``: sets of concepts whose membership must not be disclosed, built in for ICD-10-CM and ICD-9-CM.
* ``meaning``: what masks tell of the kind of a value: its chapter, its block, and whether it is sensitive.
* ``floor``: the least change that masking must make.
* ``risk``: all measures of a mechanism with its statistics.
"""
