"""Events of a scalar A with few elements of its array B: the scalar and its elements are masked together.

An element that is masked given its scalar's mask must follow it (``transport.conditional``). So the scalar must stay
where its elements could not follow, and is guessed more often than if it were masked together with them. That is
possible for a given number of elements n: the field (``transport.field``) of A and n copies of B, all linked with A,
preserves the law P(a, b) of each element with its scalar, at the same distances.

Each number of elements has a field of its own. The masks of n elements tell more about A the greater n is, while those
of elements that follow tell nothing about it that A's own mask does not. So events with more than ``MAX_ELEMENTS``
elements are masked by the latter.

The window's law is taken to be the same for each number of elements. As long as it is not, the law of masked events is
between that of the window and that of the events.

* ``events``: the fitted fields and their form in a model. ``fitting``: their fit. ``prepared``: how they mask, and what
  their masks tell.
"""
