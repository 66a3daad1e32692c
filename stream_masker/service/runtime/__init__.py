"""Helpers for processes."""
