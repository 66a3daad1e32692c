"""Semantic noise (2017).

``semantic`` is the mechanism, ``model`` draws its noise from the statistics of a window, and ``law`` gives the
probabilities of masks, for the risk.
"""
