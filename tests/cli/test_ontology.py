"""``stream-masker ontology``."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from support.snomed import write_release

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
            ("with several parents", "1"),
            ("with a label", "8"),
            ("synonyms", "0"),
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

    def test_children_are_printed(self, source):
        children = [value for name, value in lines(run("inspect", source, "digestive")) if name == "child"]
        assert sorted(children) == ["gastric (Disease of the stomach)", "oral (Disease of the mouth)"]

    def test_built_in_ontology_has_a_name(self):
        assert ("concepts", "98494") in lines(run("inspect", "icd10cm"))

    def test_unknown_concept_is_an_error(self, source):
        result = run("inspect", source, "nothing")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "Error: 'nothing' is not a concept below disease: use a code or a label of the ontology\n"
        )

    def test_unknown_ontology_lists_the_allowed_sources(self):
        result = run("inspect", "nothing")
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: nothing is not an ontology: give a name (icd10cm) or a file ending in ")


class TestDistance:
    def test_distance_subsumer_and_paths_are_printed(self, source):
        assert lines(run("distance", source, "gingivitis", "Gastritis")) == [
            ("A", "gingivitis (Gingivitis)"),
            ("B", "gastritis (Gastritis)"),
            ("least common subsumer", "digestive (Disease of the digestive system), depth 2"),
            ("path from A to the subsumer", "2 links"),
            ("path from B to the subsumer", "2 links"),
            ("wu_palmer", "0.500000"),
        ]

    def test_distance_can_be_selected(self, source):
        found = dict(lines(run("distance", source, "gingivitis", "gastritis", "--distance", "log_taxonomic")))
        assert found["log_taxonomic"] == "0.736966"

    def test_root_restricts_the_taxonomy(self, source):
        found = dict(lines(run("distance", source, "gingivitis", "gastritis", "--root", "digestive")))
        assert found["least common subsumer"].endswith("depth 1")
        assert found["wu_palmer"] == "0.666667"

    @pytest.mark.parametrize(
        "arguments",
        [
            ["gingivitis", "x"],
            ["x", "gingivitis"],
            ["oral", "neoplasm", "--root", "digestive"],
            ["oral", "oral", "--root", "x"],
        ],
    )
    def test_unknown_concepts_are_errors(self, source, arguments):
        result = run("distance", source, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "is not a concept" in result.stderr

    def test_unknown_measure_is_an_error(self, source):
        assert run("distance", source, "oral", "oral", "--distance", "x").exit_code == 2


class TestMap:
    VALUES = f"oral\nORAL\nGastritis\n{SECRET}\n\noral.5\n"

    @pytest.mark.parametrize(
        ("unknown", "status", "last"),
        [
            ("reject", "rejected", "rejected\tunknown"),
            ("suppress", "suppressed", "suppressed\tunknown"),
            ("ancestor", "rejected", "rejected\tunknown"),
        ],
    )
    def test_policy_determines_the_result_of_unknown_values(self, source, unknown, status, last):
        result = run("map", source, "--unknown", unknown, input=self.VALUES)
        assert result.stdout.splitlines() == [
            "1\toral\texact",
            "2\toral\tnormalised",
            "3\tgastritis\tnormalised",
            f"4\t{status}\tunknown",
            f"5\t{status}\tunknown",
            f"6\t{last}",
        ]
        assert result.stderr.startswith("6 values: ")
        assert SECRET not in result.output

    def test_values_are_read_from_a_file(self, source, tmp_path):
        (tmp_path / "values.txt").write_bytes(b"oral\r\n\xff\xfe\nDisease of the mouth")
        result = run("map", source, str(tmp_path / "values.txt"))
        assert result.stdout == "1\toral\texact\n2\trejected\tunknown\n3\toral\tlabel\n"

    def test_mapping_file_is_used(self, source, tmp_path):
        (tmp_path / "m.csv").write_text("value,concept\nX1,oral\n")
        result = run("map", source, "--mapping", str(tmp_path / "m.csv"), input="X1\n")
        assert result.stdout == "1\toral\tmapping\n"

    def test_values_outside_the_root_are_unknown(self, source):
        assert run("map", source, "--root", "neoplasm", input="oral\n").stdout == "1\trejected\tunknown\n"

    def test_no_values_are_no_error(self, source):
        result = run("map", source, input="")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "0 values\n")

    @pytest.mark.parametrize("arguments", [["--unknown", "keep"], ["--mapping", "none.csv"], ["nowhere.txt"]])
    def test_usage_errors(self, source, arguments):
        assert run("map", source, *arguments, input="").exit_code == 2


class TestCompile:
    @pytest.fixture
    def cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("STREAM_MASKER_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    def test_compiled_file_is_a_source(self, source, tmp_path, cache):
        path = tmp_path / "diseases.ontology"
        result = dict(lines(run("compile", source, "--output", str(path))))
        assert result == {"file": str(path), "concepts": "8", "bytes": str(path.stat().st_size)}
        assert run("inspect", str(path)).stdout == run("inspect", source).stdout
        assert run("map", str(path), input="TUMOUR OF THE MOUTH\n").stdout == "1\ttumour\tlabel\n"

    def test_compile_into_the_cache(self, source, cache):
        result = dict(lines(run("compile", source)))
        assert list(map(str, cache.iterdir())) == [result["file"]]

    @pytest.mark.exhaustive
    def test_snomed_release_is_compiled(self, tmp_path, cache):
        folder = write_release(tmp_path / "release", concepts=30, seed=1)
        path = tmp_path / "snomed.ontology"
        assert ("concepts", "30") in lines(run("compile", str(folder), "-o", str(path)))
        assert lines(run("inspect", str(path)))[0][1].startswith("138875005 (")

    def test_usage_errors(self, source, tmp_path, cache):
        compiled = str(tmp_path / "x.ontology")
        lines(run("compile", source, "-o", compiled))
        for arguments, code, message in [
            ([source, "-o", str(tmp_path / "x.bin")], 2, r"must end in .ontology"),
            ([compiled], 2, "is compiled already"),
            ([source, "-o", str(tmp_path / "none" / "x.ontology")], 1, "none does not exist"),
            (
                [str(tmp_path)],
                2,
                "SNOMED CT RF2 snapshot (of another ontology, name its file, unpacked)",
            ),
        ]:
            result = run("compile", *arguments)
            assert (result.exit_code, result.stdout) == (code, "")
            assert message in result.stderr

    def test_damaged_file_is_an_error(self, source, tmp_path, cache):
        path = tmp_path / "x.ontology"
        lines(run("compile", source, "-o", str(path)))
        path.write_bytes(path.read_bytes()[:-1])
        result = run("inspect", str(path))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"Error: {path} is truncated or damaged: ")


TREE = """concept,parent,label
D,,Disease
D1,D,Bronchial asthma
D2,D,Gastritis
D21,D2,Acute gastritis
S,,Symptom
S1,S,Gastritis
"""


@pytest.fixture
def several(tmp_path):
    """An edge list with two roots, and a label that two concepts share."""
    path = tmp_path / "several.csv"
    path.write_text(TREE)
    return path


def test_several_roots_get_a_common_one_and_the_tree_is_printed(several):
    done = CliRunner().invoke(main, ["ontology", "inspect", str(several), "--tree"])
    assert done.stdout.splitlines() == [
        "ROOT",
        "  D (Disease)",
        "    D1 (Bronchial asthma)",
        "    D2 (Gastritis) [1 below]",
        "  S (Symptom)",
        "    S1 (Gastritis)",
    ]
    below = CliRunner().invoke(main, ["ontology", "inspect", str(several), "D2", "--tree", "--depth", "1"])
    assert below.stdout.splitlines() == ["D2 (Gastritis)", "  D21 (Acute gastritis)"]


def test_an_ambiguous_label_names_its_concepts(several):
    done = CliRunner().invoke(main, ["ontology", "inspect", str(several), "gastritis"])
    assert done.exit_code == 2
    assert "'gastritis' stands for several concepts: use the code: D2, S1" in done.stderr


def test_a_misspelt_label_has_suggestions(several):
    done = CliRunner().invoke(main, ["ontology", "inspect", str(several), "bronchal astma"])
    assert "did you mean D1?" in done.stderr


def test_map_suggests_concepts_and_names_ambiguous_ones(several):
    values = "gastritis\nbronchal asthma\nD22\nnothing like it\nD1\n"
    done = CliRunner().invoke(main, ["ontology", "map", str(several), "--suggest"], input=values)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[0] == ["1", "rejected", "ambiguous", "D2, S1"]
    assert lines[1] == ["2", "rejected", "unknown", "D1"]
    assert set(lines[2][3].split(", ")) >= {"D2", "D21"}
    assert lines[3] == ["4", "rejected", "unknown"]
    assert lines[4] == ["5", "D1", "exact"]
    assert "5 values: 3 unknown, 1 ambiguous, 1 exact" in done.stderr
