"""Other programs, measured beside this one on the same data: ``docs/development.md``.

One command an area: ``python tests/benchmarks/peers/privacy.py``. Each peer runs in an environment of its own, which
the command creates in the cache folder, from pinned versions. ``inside`` holds the scripts that run
in these environments.
"""
