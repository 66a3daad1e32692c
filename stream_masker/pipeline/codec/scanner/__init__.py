"""The scanner codec: compiled kernels that read a batch in one pass over its bytes.

``program`` compiles a plan to tables. ``scan`` reads a batch by these tables into ``buffers`` and writes a template of
each output record; ``render`` fills the templates once the batch is masked. A record that the tables do not cover is
left to the reference codec.
"""
