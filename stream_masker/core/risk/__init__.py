"""Disclosure risk, as reductions of the joint law of values and masks.

``law``: the probabilities of masks, which mechanisms state, and random records. ``risk``: the figures.
``sensitive``: sets of concepts that must not be disclosed.
"""
