"""What the name of a field tells about it, in several languages: a person, a date, an age, a diagnosis.

Names are compared word by word, without accents and case. ``patientId``, ``PATIENT_ID`` and ``Patient-ID`` have the
same words. A *stem* is part of a word (``diagnos`` in ``Hauptdiagnose``); an *ending* ends one (``Patientennummer``).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final

_LETTERS: Final = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "æ": "ae", "đ": "d"})
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class NameKind:
    """The words, stems and endings by which names of a kind are known."""

    words: frozenset[str]
    stems: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    def fits(self, name: str) -> bool:
        """Return whether a name is of the kind."""
        words = name_words(name)
        return any(self._fits(word) for word in (*words, "".join(words)))

    def _fits(self, word: str) -> bool:
        return word in self.words or any(stem in word for stem in self.stems) or word.endswith(self.endings or ("\0",))


@cache
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without accents."""
    plain = unicodedata.normalize("NFKD", name).translate(_LETTERS)
    return tuple(map(str.lower, _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))))


def _kind(words: str, stems: str = "", endings: str = "") -> NameKind:
    return NameKind(frozenset(words.split()), tuple(stems.split()), tuple(endings.split()))


PERSON_NAMES: Final = _kind(
    "pat patnr patid mrn pid client member ipp nhs bsn pesel cpf dni kvnr vers",
    "patient pacient pazient pacjent paciente subject person beneficiary insured versicher assure utente",
)
IDENTIFIER_NAMES: Final = _kind(
    "id ids nr nbr no num number numero numer key uuid guid identifier reference mrn ssn pid ipp iep csn kvnr kennung "
    "accession patid pesel bsn cpf dni",
    "",
    "nummer nr numero",
)
CASE_NAMES: Final = _kind("case fall visit stay csn iep", "encounter aufenthalt sejour episod besuch opname")
POSTCODE_NAMES: Final = _kind("zip zipcode plz cap cep npa", "postal postcode postleitzahl postnummer")
AGE_NAMES: Final = _kind("age ages alter edad idade eta leeftijd alder wiek vek ika yas", "", "alter")
BIRTH_YEAR_NAMES: Final = _kind(
    "yob jahrgang",
    "geburtsjahr gebjahr jahrdergeburt birthyear yearofbirth anneenaissance anneedenaissance anonacimiento "
    "annonascita geboortejaar fodelsear",
)
_BIRTH_WORDS: Final = "dob geb gebdat"
_BIRTH_STEMS: Final = "geburts geboren naissance nacimiento nascita nascimento geboorte urodzenia fodelse"
BIRTH_NAMES: Final = _kind(_BIRTH_WORDS, f"birth {_BIRTH_STEMS}")
DATE_NAMES: Final = _kind(f"date datum fecha dat {_BIRTH_WORDS}", f"datum birthdate {_BIRTH_STEMS}", "date datum")
TIME_NAMES: Final = _kind("zeit time timestamp heure hora tijd czas", "zeitpunkt", "zeit")
YEAR_NAMES: Final = _kind(
    "year yr annee ano anno aar jaar rok ar month mois mes mese maand", "", "jahr year jaar monat month"
)
"""Names of years and months."""

PRIVATE_NAMES: Final = _kind(
    "nom nombre tel line city text note notes url ville rue calle via ort ssn iban konto imie religion beruf job "
    "display label title desc doctor arzt medecin",
    "name naam namn navn nazwisko prenom apellid cognom phone telefon mail fax street strasse address adress anschrift "
    "direccion indirizz stadt wohnort ciudad citta kontakt contact comment komment remark bemerk notiz anmerk observac "
    "freitext freetext license birthplace geburtsort physician practitioner employer arbeitgeber ethnic description "
    "beschreib bezeichnung libelle descrip",
)
CLINICAL_NAMES: Final = _kind(
    "icd icd9 icd10 ops atc drg mdc cpt hcpcs loinc snomed sct omim orpha hpo mesh umls dx hd nd px cie cim ccam cid "
    "code codes kode codigo codice cod schluessel ward station service unit bed bett lab labs test tests grund rx pzn "
    "ndc ghm dp das acte med meds dose dosis",
    "diagnos krankheit erkrank disease maladi enfermedad malatt doenca ziekte sjukdom sygdom chorob rozpozn befund "
    "finding symptom sintom reason motif motivo indikat indicat procedure prozedur procedim operation eingriff surger "
    "chirurg intervenc behandl treatment therap traitement tratamient trattament medikat medicat medicament arznei "
    "wirkstoff farma pharma rezept prescri allerg morbid complic komplikat anamnes histor problem condition zustand "
    "patholog morpholog tumor tumour cancer krebs onko labor result ergebnis untersuch examen vaccin impfung immun "
    "fachabteil abteilung department special outcome todes death cause causa ursache icdcode snomed loinc observation "
    "aufnahmegrund entlassgrund schlussel comorb risk hiv diabet pregnan schwanger",
)
SEX_NAMES: Final = _kind("sex gender geschlecht sexe sexo sesso genre genero genere geslacht plec kon kjonn")
HARMLESS_NAMES: Final = _kind(
    "los currency quartal quarter weekday wochentag",
    "verweildauer lengthofstay staydays dureesejour dureedesejour dureedusejour aufnahmeart entlassungsart "
    "admissiontype dischargetype modeentree modedentree modesortie modedesortie tipoingreso tipodeingreso "
    "maritalstatus familienstand",
)
"""The fields that are kept if their values are short: each further kind of field is dropped unless it is known."""

TELLING_VALUES: Final = _kind("", "geburt entbind birth newborn deliver accouch naissance parto nascita psych suicid")
"""Words by which a category of such a field tells why a person came, beside those of ``CLINICAL_NAMES``."""
