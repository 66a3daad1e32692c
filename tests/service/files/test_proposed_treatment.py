"""The treatment of fields by their names and values, in several languages."""

from __future__ import annotations

import pytest

from stream_masker.service.files.proposal.sample import json_scalars, sampled_fields
from stream_masker.service.files.proposal.treatment import noise_key, treatment, whole_years


def sampled(name, values):
    return sampled_fields(json_scalars({name: value}) for value in values)


def treated(name, values, concepts=()):
    (field,) = sampled(name, values).values()
    return treatment(field, lambda text: text in concepts)


@pytest.mark.parametrize(
    "values",
    [
        ["E11.90G", "I10.00", "J18.9V"],
        ["E11.90; I10.00", "J18.9"],
        ["5-470.11", "8-930", "1-632.0"],
        ["C03CA01", "A10BA02"],
        ["718-7", "2345-7", "4548-4"],
        ["F62B", "E77I", "I47B"],
        ["0DTJ4ZZ", "5A1955Z"],
        ["HP:0001250", "HP:0000118"],
        ["E11.9 Diabetes mellitus", "I10: Hypertonie"],
        ["urn:oid:2.16.840.1.113883.6.90|E11.9", "urn:oid:2.16.840.1.113883.6.90|I10"],
    ],
)
@pytest.mark.parametrize("name", ["x", "Aufnahmeart"])
def test_codes_are_dropped_and_flagged(name, values):
    found = treated(name, values * 20)
    assert (found.key, found.is_flagged) == ("drop", True)


@pytest.mark.parametrize(
    "values",
    [
        ["Pneumonie", "Herzinfarkt"],
        ["a free text about a fall", "another one of some length"],
        [f"{k} words of a text" for k in range(200)],
        [0, 1],
        [True, False],
        ["yes", "no"],
        [120.5, 80.25],
        ["HIV+", "HIV-", "pending"],
        ["m", "Asthma"],
    ],
)
@pytest.mark.parametrize("name", ["zzz", "Hauptdiagnose", "admission_type", "Geschlecht"])
def test_values_of_unknown_meaning_are_dropped(name, values):
    assert treated(name, values * 2).key == "drop"


@pytest.mark.parametrize("name", ["age", "Alter", "âge", "edad", "idade", "età", "Patientenalter", "ageAtAdmission"])
@pytest.mark.parametrize("values", [[7, 64, 91], ["7", "64", "91"]])
def test_ages_are_generalized_in_several_languages(name, values):
    assert treated(name, values).value == {"width": 5, "top": 90}


@pytest.mark.parametrize("name", ["Geburtsjahr", "Geb.-Jahr", "year of birth", "Année de naissance"])
def test_years_of_birth_are_generalized(name):
    assert treated(name, [1948, 1971]).value == {"width": 10}


@pytest.mark.parametrize("name", ["dob", "birth_date", "Geburtsdatum", "GEBDAT", "Date de naissance", "born.birth"])
def test_dates_of_birth_are_no_more_exact_than_years_of_birth(name):
    assert treated(name, ["1948-07-04", "1971-12-31"]).value == {"date": "decade"}


def test_dates_of_birth_keep_their_year_where_a_standard_has_no_coarser_date():
    found = whole_years(treated("birthDate", ["04.07.1948"]))
    assert found.value == {"date": "year", "formats": ["%d.%m.%Y"]}
    assert whole_years(treated("age", [48])).value == {"width": 5, "top": 90}


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["2024-03-14", "2024-03-15T10:15:00Z"], None),
        (["14.03.2024", "4.3.2024"], ["%d.%m.%Y"]),
        (["03/14/2024", "12/31/2023"], ["%m/%d/%Y"]),
        (["31/12/2023 10:15"], ["%d/%m/%Y %H:%M"]),
        (["20240314", "20231231"], ["%Y%m%d"]),
        ([20240314, 20231231], ["%Y%m%d"]),
        (["03/2024", "12/2023"], ["%m/%Y"]),
    ],
)
@pytest.mark.parametrize("name", ["admitted", "Aufnahme", "x"])
def test_dates_are_generalized_whatever_their_name_and_format(name, values, formats):
    assert treated(name, values).value == (
        {"date": "year"} if formats is None else {"date": "year", "formats": formats}
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lab_key", ["2093-3", "2085-9", "1988-5"]),
        ("zzz", [1980, 2024]),
        ("Geburtsdatum", ["4. März 1948", "5. Mai 1950"]),
        ("Geburtsdatum", ["4.3.94", "5.5.48"]),
    ],
)
def test_what_is_no_date_of_a_known_format_is_dropped(name, values):
    assert treated(name, values).key == "drop"


@pytest.mark.parametrize(
    ("name", "values"), [("Geschlecht", ["m", "w"]), ("x", ["F", "M"]), ("sex", ["male", "female"])]
)
def test_sexes_are_kept(name, values):
    assert treated(name, values).key == "keep"
    assert treated(name, values, values).key == "drop", "labels of the ontology"


@pytest.mark.parametrize("name", ["patient_id", "PatientenID", "Pat-Nr", "PATNR", "paciente_id", "MRN", "KVNR"])
def test_the_id_of_a_person_is_pseudonymized_and_keys_the_noise(name):
    fields = sampled(name, [f"p{k % 7}" for k in range(60)])
    assert noise_key(fields.values(), 60)[0] == name
    assert treated(name, [f"p{k % 7}" for k in range(60)]).key == "pseudonymize"
    assert treated(name, ["Ada Example", "Alan Turing"]).key == "drop"


@pytest.mark.parametrize("name", ["patient_name", "city", "remark_text"])
def test_private_texts_are_dropped(name):
    assert treated(name, [f"Ada{k}" for k in range(200)]).key == "drop"
