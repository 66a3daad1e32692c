"""The field policy of a configuration."""

from __future__ import annotations

from stream_masker.pipeline.paths import Path
from stream_masker.pipeline.plan import FieldPolicy
from stream_masker.service.configuration.fields.reading import field_path, type_paths
from stream_masker.service.configuration.fields.transforms import build_transforms
from stream_masker.service.configuration.model import Configuration


def field_policy(configuration: Configuration) -> FieldPolicy:
    """Return the treatment of fields that are not attributes."""
    fields = configuration.fields
    return FieldPolicy(
        unlisted=fields.unlisted,
        keep=(*type_paths(configuration), *_paths(configuration, fields.keep, whole=True)),
        drop=_paths(configuration, fields.drop, whole=True),
        pseudonymize=_paths(configuration, fields.pseudonymize),
        transforms=build_transforms(configuration),
    )


def _paths(configuration: Configuration, texts: tuple[str, ...], *, whole: bool = False) -> tuple[Path, ...]:
    return tuple(field_path(configuration, text, whole=whole) for text in texts)
