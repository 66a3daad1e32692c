"""Parameters of mechanisms that depend on more than their own value.

* ``defaults``: the mechanism of a configuration that names none, and the parameters that follow from the attributes.
* ``pairing``: the pairs of attributes for reference ``pair`` and the fields of the context, and their checks.
* ``matrices``: the files of Markov matrices.
"""
