"""Configuration reload: changed settings are applied, all other changes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.reload import ConfigurationFile

DATA = {
    "ontologies": {"small": {"source": "ontology.csv"}},
    "attributes": {name: {"path": name, "ontology": "small", "alpha": 0.3} for name in ("first", "second")},
    "fields": {"keep": ["id"], "unlisted": "drop"},
    "noise_key": "position",
    "mechanism": {"reference": "mean"},
}


TIGHTER = {"unlisted": "drop", "drop": ["name"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "c.yaml"
    made.write_text(yaml.safe_dump(DATA))
    return made


@pytest.fixture
def file(path: Path) -> ConfigurationFile:
    return ConfigurationFile(path, {})


def change(path: Path, **sections: object) -> None:
    path.write_text(yaml.safe_dump({**DATA, **sections}))


def test_unchanged_file_is_not_applied(file):
    before = file.current
    assert not file.reload_if_changed()
    assert not file.reload_if_changed(force=True)
    assert file.current.hash == before.hash


def test_changed_settings_are_applied_once(file, path):
    before = file.current.hash
    change(path, mechanism={"reference": "root"}, fields=TIGHTER)
    assert file.reload_if_changed()
    assert not file.reload_if_changed()
    assert file.current.mechanism.reference == "root"
    assert file.current.fields.drop == ("name",)
    assert file.current.hash != before
    assert (file.refused, file.refusals) == (None, 0)


def test_environment_still_overrides_the_file(path):
    file = ConfigurationFile(path, {"STREAM_MASKER__MECHANISM__REFERENCE": "root"})
    change(path, fields=TIGHTER)
    assert file.reload_if_changed()
    assert file.current.mechanism.reference == "root"


def test_other_sections_are_ignored(file, path):
    change(path, http={"port": 1})
    assert not file.reload_if_changed()
    assert file.refused is None


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"mechanism": {"reference": "median"}}, "median"),
        ({"noise_key": "id"}, "noise_key: a change here needs a restart"),
        ({"attributes": {"first": DATA["attributes"]["first"]}}, "attributes: a change here needs a restart"),
        ({"fields": None}, "fields"),
    ],
)
def test_invalid_change_is_refused(file, path, caplog, sections, named):
    before = file.current
    change(path, **sections)
    assert not file.reload_if_changed()
    assert file.current is before
    assert file.refusals == 1
    assert named in file.refused
    assert "the previous one stays in force" in caplog.text
    assert not file.reload_if_changed()
    assert file.refusals == 1, "the same file is refused once"
    change(path, fields=TIGHTER)
    assert file.reload_if_changed()
    assert file.refused is None


def test_invalid_or_missing_file_is_refused(file, path):
    before = file.current
    path.write_text("a: [")
    assert not file.reload_if_changed()
    path.unlink()
    assert not file.reload_if_changed()
    assert (file.current, file.refusals) == (before, 2)


def test_invalid_file_at_start_is_an_error(path):
    change(path, fields=None)
    with pytest.raises(ConfigurationError):
        ConfigurationFile(path, {})
