"""The demonstration: every process of the service at work on generated events, watched live."""

from stream_masker.service.demo.run import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
