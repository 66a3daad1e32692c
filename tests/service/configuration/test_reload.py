"""Following a configuration file: other settings are taken up, whatever else changes is refused."""

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
    "mechanism": {"reference": "mean"},
}


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


def test_nothing_happens_while_the_file_stays(file):
    before = file.current
    assert not file.reload_if_changed()
    assert not file.reload_if_changed(force=True)
    assert file.current.hash == before.hash


def test_other_settings_are_taken_up_once(file, path):
    before = file.current.hash
    change(path, mechanism={"reference": "root"}, fields={"unlisted": "keep"})
    assert file.reload_if_changed()
    assert not file.reload_if_changed()
    assert file.current.mechanism.reference == "root"
    assert file.current.fields.unlisted == "keep"
    assert file.current.hash != before
    assert (file.refused, file.refusals) == (None, 0)


def test_the_environment_still_overrides(path):
    file = ConfigurationFile(path, {"STREAM_MASKER__MECHANISM__REFERENCE": "root"})
    change(path, fields={"unlisted": "keep"})
    assert file.reload_if_changed()
    assert file.current.mechanism.reference == "root"


def test_what_does_not_decide_masking_changes_nothing(file, path):
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
def test_a_bad_one_is_refused_and_the_old_one_stays(file, path, caplog, sections, named):
    before = file.current
    change(path, **sections)
    assert not file.reload_if_changed()
    assert file.current is before
    assert file.refusals == 1
    assert named in file.refused
    assert "the previous one stays in force" in caplog.text
    assert not file.reload_if_changed()
    assert file.refusals == 1, "the same file is refused once"
    change(path, fields={"unlisted": "keep"})
    assert file.reload_if_changed()
    assert file.refused is None


def test_a_file_that_is_no_yaml_or_gone_is_refused(file, path):
    before = file.current
    path.write_text("a: [")
    assert not file.reload_if_changed()
    path.unlink()
    assert not file.reload_if_changed()
    assert (file.current, file.refusals) == (before, 2)


def test_a_bad_file_at_the_start_is_an_error(path):
    change(path, fields=None)
    with pytest.raises(ConfigurationError):
        ConfigurationFile(path, {})
