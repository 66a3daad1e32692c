"""``stream-masker ontology``."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stream_masker.cli import main

EDGES = """concept,parent,label
disease,,Disease
digestive,disease,Disease of the digestive system
oral,digestive,Disease of the mouth
gingivitis,oral,Gingivitis
gastric,digestive,Disease of the stomach
gastritis,gastric,Gastritis
neoplasm,disease,Neoplasm
tumour,neoplasm,Tumour of the mouth
tumour,oral,
"""
SECRET = "no such code"


@pytest.fixture
def source(tmp_path) -> str:
    path = tmp_path / "diseases.csv"
    path.write_text(EDGES)
    return str(path)


def run(*arguments, **options):
    return CliRunner().invoke(main, ["ontology", *arguments], prog_name="stream-masker", **options)


def lines(result):
    assert result.exit_code == 0, result.output
    return [tuple(part.strip() for part in line.split(":", 1)) for line in result.stdout.splitlines()]


class TestInspect:
    def test_counts_are_printed(self, source):
        assert lines(run("inspect", source)) == [
            ("root", "disease (Disease)"),
            ("concepts", "8"),
            ("leaves", "3"),
            ("depth", "4"),
            ("with a label", "8"),
        ]

    @pytest.mark.parametrize("value", ["tumour", "TUMOUR", "tumour of the mouth"])
    def test_concept_is_found_by_id_and_by_label(self, source, value):
        assert sorted(lines(run("inspect", source, value))) == [
            ("concept", "tumour"),
            ("depth", "4"),
            ("label", "Tumour of the mouth"),
            ("parent", "neoplasm (Neoplasm)"),
            ("parent", "oral (Disease of the mouth)"),
        ]

    def test_built_in_ontology_has_a_name(self):
        assert ("concepts", "98494") in lines(run("inspect", "icd10cm"))

    def test_unknown_concept_is_an_error(self, source):
        result = run("inspect", source, "nothing")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "Error: 'nothing' is not a concept below disease: use a code or a label of the ontology\n"
        )


class TestMap:
    VALUES = f"oral\nORAL\nGastritis\n{SECRET}\n\noral.5\n"

    @pytest.mark.parametrize(
        ("unknown", "status"), [("reject", "rejected"), ("suppress", "suppressed"), ("ancestor", "rejected")]
    )
    def test_policy_determines_the_result_of_unknown_values(self, source, unknown, status):
        result = run("map", source, "--unknown", unknown, input=self.VALUES)
        assert result.stdout.splitlines() == [
            "1\toral\texact",
            "2\toral\tnormalised",
            "3\tgastritis\tnormalised",
            f"4\t{status}\tunknown",
            f"5\t{status}\tunknown",
            f"6\t{status}\tunknown",
        ]
        assert result.stderr.startswith("6 values: ")
        assert SECRET not in result.output

    def test_mapping_file_is_used(self, source, tmp_path):
        (tmp_path / "m.csv").write_text("value,concept\nX1,oral\n")
        result = run("map", source, "--mapping", str(tmp_path / "m.csv"), input="X1\n")
        assert result.stdout == "1\toral\tmapping\n"

    @pytest.mark.parametrize("arguments", [["--unknown", "keep"], ["--mapping", "none.csv"], ["nowhere.txt"]])
    def test_usage_errors(self, source, arguments):
        assert run("map", source, *arguments, input="").exit_code == 2


@pytest.fixture
def several(tmp_path):
    """An edge list with a label that two concepts share."""
    path = tmp_path / "several.csv"
    path.write_text("concept,parent,label\nD,,Disease\nD1,D,Asthma\nD2,D,Gastritis\nS1,D,Gastritis\n")
    return path


def test_an_ambiguous_label_names_its_concepts(several):
    done = CliRunner().invoke(main, ["ontology", "inspect", str(several), "gastritis"])
    assert done.exit_code == 2
    assert "'gastritis' stands for several concepts: use the code: D2, S1" in done.stderr


def test_map_says_which_values_are_ambiguous(several):
    done = CliRunner().invoke(main, ["ontology", "map", str(several)], input="gastritis\nnothing like it\nD1\n")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines == [["1", "rejected", "ambiguous"], ["2", "rejected", "unknown"], ["3", "D1", "exact"]]
    assert "3 values: 1 ambiguous, 1 unknown, 1 exact" in done.stderr
