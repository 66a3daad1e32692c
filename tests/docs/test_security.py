"""The threat model: its summary, and the test behind each claim of protection."""

from __future__ import annotations

import ast
import re

import pytest
from support.documentation import DOCS, ROOT

CLAIMS_PAGE = (DOCS / "security" / "claims.md").read_text()
CLAIMS = re.findall(r"^\| .+ \| `(tests/[\w/]+\.py)::(\w+)` \|$", CLAIMS_PAGE, re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), CLAIMS, ids=[name for _, name in CLAIMS])
def test_each_claim_of_protection_names_a_test(file, name):
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_claim_is_without_a_test():
    assert len(CLAIMS) == len(re.findall(r"^\| ", CLAIMS_PAGE, re.MULTILINE)) - 2 > 30


def test_the_summary_has_ten_lines():
    section = (DOCS / "security.md").read_text().partition("## In ten lines")[2].partition("\n## ")[0]
    assert [line.split(".")[0] for line in section.strip().splitlines()] == [str(number) for number in range(1, 11)]
