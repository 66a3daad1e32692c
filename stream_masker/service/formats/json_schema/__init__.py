"""JSON Schema validation in bounded time."""
