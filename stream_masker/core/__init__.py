"""The mathematics of semantic masking. It is independent of Kafka and reads and writes ontology files only.

* ``ontology``: concepts, is-a links, and the taxonomy of one attribute.
* ``distance``: semantic distances between the concepts of a taxonomy.
* ``statistics``: exact statistics of a calibration window, computed from counts.
* ``replacement``: the choice of a concept whose distance matches a noise magnitude.
* ``mechanisms``: the masking mechanisms, which meet one contract.
* ``random``: reproducible random words, derived from a secret and a record's key.
* ``kernels``: every compiled function.

The modules of this folder hold the types that these packages share. In all of them, a *law* is a probability
distribution.
"""
