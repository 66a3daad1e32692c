"""Helpers for processes: background tasks, garbage collection, protected memory, shutdown."""
