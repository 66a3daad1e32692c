"""The demonstration: all processes of the service on generated events, with a live view.

``run`` directs it: ``environment`` writes the configuration, ``embedded`` is the default broker, ``children`` are the
processes, ``watch`` reads the topics, and ``view`` shows what it read.
"""

from stream_masker.service.demo.run import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
