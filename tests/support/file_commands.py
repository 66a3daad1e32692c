"""Commands that work on files: a small configuration, events, and their output."""

from __future__ import annotations

import re
from contextlib import contextmanager

import orjson
import yaml
from click.testing import CliRunner
from support.small_configuration import write_secret

from stream_masker.cli import main

ROOT = {"A": ["A1", "A2", "A3"], "B": ["B1", "B2"], "C": ["C1", "C2", "C3"]}
CODES = [code for codes in ROOT.values() for code in codes]


def write_configuration(folder):
    """Write a configuration with a small taxonomy, and its files; return its path."""
    links = {code: chapter for chapter, codes in ROOT.items() for code in codes}
    attributes = {"a": {"path": "a", "ontology": "tree"}, "b": {"path": "b", "ontology": "tree"}}
    return write_deployment(
        folder,
        {**dict.fromkeys(ROOT, "R"), **links},
        attributes=attributes,
        fields={"keep": ["id"], "pseudonymize": ["patient"], "unlisted": "drop"},
        mechanism={"name": "semantic_noise", "preset": "paper"},
        calibration={"window_records": 50, "min_records": 10},
    )


def write_deployment(folder, links, **sections):
    """Write a configuration with a secret and the ontology ``tree`` of links; return its path."""
    (root,) = {*links.values()} - {*links}
    rows = [f"{child},{parent},Disease {child}" for child, parent in links.items()]
    (folder / "tree.csv").write_text("\n".join(["concept,parent,label", f"{root},,Everything", *rows]) + "\n")
    write_secret(folder)
    content = {"ontologies": {"tree": {"source": "tree.csv"}}, "noise_key": "position", "secret": {"file": "secret"}}
    path = folder / "stream-masker.yaml"
    path.write_text(yaml.safe_dump(content | sections, sort_keys=False))
    return path


@contextmanager
def changed(path):
    """Change the content of a configuration in a block."""
    content = yaml.safe_load(path.read_text())
    yield content
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def amend(path, **sections):
    """Replace sections of a configuration."""
    with changed(path) as content:
        content.update(sections)


def event(k):
    return {"id": k, "patient": f"p{k % 7}", "a": CODES[k % 8], "b": CODES[(k * 3) % 8], "name": "Ada"}


LINES = [orjson.dumps(event(k)) for k in range(120)]


def write(path, lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def run(*arguments, code=0, **options):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], **options)
    assert done.exit_code == code, done.output
    return done


def read(path):
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def without_activity(text):
    """Return the lines of standard error without those that a slow machine adds: an activity and its seconds."""
    return [line for line in text.splitlines() if not re.fullmatch(r".* \([0-9]+ s\)", line)]
