"""Disclosure risk, as reductions of the joint law of values and masks.

* ``channel``, ``classes``, ``records``: what mechanisms tell of their masks.
* ``risk``: the figures, each a reduction of a joint law. ``sensitive``: sets of concepts that must not be disclosed.
* ``assessment``: the risk of a mechanism with its statistics. ``groups``: by simulation, of those that mask groups.
* ``floor``: the least that masking must change and hide.
"""
