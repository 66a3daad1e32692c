"""The scanner codec: compiled kernels that read and write records as bytes.

``program`` compiles a plan to tables, with the field policy as ``policy_states``. ``scan`` is the pass over the bytes:
it uses ``tokens`` (JSON tokens), ``items`` (members, elements, filters), ``lookups`` (hash tables), and ``extraction``
(codes, labels, numbers), and writes into ``buffers``. Texts that occur for the first time are looked up by Python and
kept in the table of interned texts. When the batch is masked, ``render`` completes the records with cached texts, also
those of transformed values, and with ``pseudonyms``. ``codec`` calls all of this.

A kernel returns an outcome instead of raising an error: a record that it does not cover is left undecided.
"""
