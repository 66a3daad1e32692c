"""The treatment of fields by their names and values, in several languages."""

from __future__ import annotations

import pytest

from stream_masker.pipeline.transforms import DateUnit, NumberBands, TransformContext
from stream_masker.service.files.proposal.sample import json_scalars, sampled_fields
from stream_masker.service.files.proposal.treatment import noise_key, treatment, whole_years


def sampled(name, values):
    return sampled_fields(json_scalars({name: value}) for value in values)


def treated(name, values, concepts=()):
    (field,) = sampled(name, values).values()
    return treatment(field, lambda text: text in concepts)


CODES = {
    "icd_gm": ["E11.90G", "I10.00", "J18.9V"],
    "x1": ["E11.90", "I10.-", "J18.9"],
    "x2": ["E11.90; I10.00", "J18.9"],
    "x3": ["5-470.11", "8-930", "1-632.0"],
    "x4": ["C03CA01", "A10BA02"],
    "x5": ["718-7", "2345-7", "4548-4"],
    "x6": ["73211009", "44054006", "38341003"],
    "x7": [73211009, 44054006, 38341003],
    "x8": ["F62B", "E77I", "I47B"],
    "x9": ["99213", "99214", "43239"],
    "x10": ["250.83", "401", "V58.1"],
    "x11": ["0DTJ4ZZ", "5A1955Z"],
    "x12": ["HP:0001250", "HP:0000118"],
    "x13": ["ORPHA:586", "ORPHA:730"],
    "x14": ["E11.9 Diabetes mellitus", "I10: Hypertonie"],
    "x15": ["44054006 |Diabetes|", "38341003 |Hypertension|"],
    "x16": ["urn:oid:2.16.840.1.113883.6.90|E11.9", "urn:oid:2.16.840.1.113883.6.90|I10"],
    "x17": ["05M092", "28Z04Z"],
    "x18": ["0002-8215-01", "0069-2587-10"],
    "x19": ["8140/3", "8500/2"],
    "x20": ["99213-25", "71046-26"],
}


@pytest.mark.parametrize(("name", "values"), CODES.items())
def test_codes_are_dropped_and_flagged(name, values):
    found = treated(name, values * 20)
    assert found.key == "drop"
    assert found.is_flagged


NAMES = ["Hauptdiagnose", "Nebendiagnosen", "diagnostic_principal", "motivo_ingreso", "Befund", "Aufnahmegrund", "hiv"]
NAMES += ["choroba", "Medikation", "dxGroup", "DRG", "proceduraal_oordeel", "maladie", "Fachabteilung", "allergies"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", [["a", "b"], [1, 2], [True, False]])
def test_fields_with_telling_names_are_never_kept(name, values):
    assert treated(name, values * 30).key == "drop"


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
    ],
)
def test_values_of_unknown_meaning_are_dropped(values):
    assert treated("zzz", values * 2).key == "drop"


AGES = ["age", "Alter", "âge", "edad", "idade", "età", "leeftijd", "ålder", "Patientenalter", "ageAtAdmission", "wiek"]


@pytest.mark.parametrize("name", AGES)
@pytest.mark.parametrize("values", [[7, 64, 91], ["7", "64", "91"]])
def test_ages_are_generalized_in_any_language(name, values):
    assert treated(name, values).value == {"width": 5, "top": 90}


def test_bands_of_ages_are_kept_and_years_of_birth_are_generalized():
    assert treated("age", ["[60-70)", "[70-80)"]).key == "keep"
    for name in ("Geburtsjahr", "Geb.-Jahr", "year of birth", "Année de naissance"):
        assert treated(name, [1948, 1971]).value == {"width": 10}


@pytest.mark.parametrize(
    "name",
    [
        "dob",
        "birth_date",
        "dateofbirth",
        "Geburtsdatum",
        "GEBDAT",
        "Date de naissance",
        "Fecha de nacimiento",
        "born.birth",
    ],
)
def test_dates_of_birth_are_no_more_exact_than_years_of_birth(name):
    assert treated(name, ["1948-07-04", "1971-12-31"]).value == {"date": "decade"}
    year, date = NumberBands(10), DateUnit("decade")
    context = TransformContext(str, bytes)
    assert date.of_value("1948-07-04", context) == year.of_value(1948, context) == "1940-1949"


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
        (["14.3.19", "31.12.94"], ["%d.%m.%y"]),
        ([20240314, 20231231], ["%Y%m%d"]),
        (["2024-03-14 10:15:00.000"], ["%Y-%m-%d %H:%M:%S.%f"]),
    ],
)
@pytest.mark.parametrize("name", ["admitted", "Aufnahme", "x"])
def test_dates_are_generalized_whatever_their_name_and_format(name, values, formats):
    assert treated(name, values).value == (
        {"date": "year"} if formats is None else {"date": "year", "formats": formats}
    )


@pytest.mark.parametrize(
    ("name", "values", "formats"),
    [
        ("x", ["03/2024", "12/2023"], ["%m/%Y"]),
        ("x", ["2024-03", "2023-12", "2024-03-14"], ["%Y-%m"]),
        ("Monat", ["3.2024", "12.2023"], ["%m.%Y"]),
        ("Entlassdatum", ["2024", "202312"], ["%Y%m", "%Y"]),
        ("Aufnahmejahr", [2023, 2024], ["%Y"]),
        ("Entlassmonat", [202403, 202312], ["%Y%m"]),
        ("Année d'admission", ["2023", "2024"], ["%Y"]),
    ],
)
def test_months_and_years_are_generalized(name, values, formats):
    found = treated(name, values).value
    assert (found["date"], sorted(found["formats"])) == ("year", sorted(formats))


@pytest.mark.parametrize(
    ("name", "values"),
    [("lab_key", ["2093-3", "2085-9", "1988-5"]), ("zzz", [1980, 2024]), ("Uhrzeit", ["1900", "2015"])],
)
def test_codes_numbers_and_times_of_day_are_no_months_and_years(name, values):
    assert treated(name, values).key == "drop"


def test_dates_whose_century_is_not_known_are_dropped_and_flagged():
    found = treated("Geburtsdatum", ["4.3.94", "5.5.48"])
    assert (found.key, found.is_flagged) == ("drop", True)
    assert found.why.startswith("of the years with two digits some would be in the future")


def test_dates_in_an_unknown_format_are_dropped_and_flagged():
    found = treated("Geburtsdatum", ["4. März 1948", "5. Mai 1950"])
    assert (found.key, found.is_flagged) == ("drop", True)


HARMLESS = [("Geschlecht", ["m", "w"]), ("x", ["F", "M"]), ("sexe", [1, 2]), ("Verweildauer", [3, 400])]
HARMLESS += [("Mode d'entrée", ["domicile", "transfert"]), ("Marital status", ["S", "M", "D"])]
HARMLESS += [("Quartal", ["2024-Q1", "Q2 2023"])]


@pytest.mark.parametrize(("name", "values"), HARMLESS)
def test_harmless_fields_are_kept(name, values):
    assert treated(name, values).key == "keep"


TELLING = {
    "status": ["HIV+", "HIV-", "pending"],
    "Gender identity": ["trans", "cis"],
    "Aufnahmeart": ["Notfall", "Geburt"],
    "admission_type": ["Elective", "Newborn"],
    "Entlassungsart": ["regulär", "HIV-Ambulanz"],
    "Quartal": ["04114918", "01126111"],
}


@pytest.mark.parametrize(("name", "values"), TELLING.items())
def test_texts_that_may_tell_a_diagnosis_are_never_kept(name, values):
    assert treated(name, values * 20).key == "drop"


@pytest.mark.parametrize("name", ["admission_type", "Geschlecht"])
def test_a_field_with_codes_or_labels_is_never_kept(name):
    assert treated(name, ["open", "Asthma"], {"Asthma"}).key == "drop"
    assert treated(name, ["E11.9", "I10"]).key == "drop"


@pytest.mark.parametrize("values", CODES.values())
def test_codes_of_any_kind_are_not_kept_for_a_harmless_name(values):
    assert treated("Aufnahmeart", list(map(str, values))).key == "drop"


@pytest.mark.parametrize(
    "name", ["patient_id", "PatientenID", "Pat-Nr", "PATNR", "paciente_id", "patient", "MRN", "KVNR", "VersNr"]
)
def test_the_id_of_a_person_is_pseudonymized_and_keys_the_noise(name):
    fields = sampled(name, [f"p{k % 7}" for k in range(60)])
    assert noise_key(fields.values(), 60)[0] == name
    assert treated(name, [f"p{k % 7}" for k in range(60)]).key == "pseudonymize"
    assert treated(name, ["Ada Example", "Alan Turing"]).key == "drop"
