"""Process-level helpers: garbage collection (``gc_tuning``), forced exit (``shutdown``), compilation (``warmup``)."""
