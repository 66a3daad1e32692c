"""Process-level helpers.

``gc_tuning`` tunes garbage collection, ``shutdown`` forces an exit, ``warmup`` compiles kernels, and ``protection``
keeps the memory from other processes.
"""
