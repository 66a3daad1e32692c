"""A configuration's field paths: how they are read, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir import BUNDLE, R4_TYPES, TYPE_PATH, fhir_path
from stream_masker.pipeline.hl7v2 import hl7_path, kept_paths
from stream_masker.pipeline.paths import NameStep, Path, alternatives, compile_path
from stream_masker.pipeline.plan import Place
from stream_masker.service.configuration.errors import Location, Problem, format_location
from stream_masker.service.configuration.masking import AttributeSection, FieldsSection
from stream_masker.service.configuration.model import Configuration

POSITION = "position"
"""The ``noise_key`` that is not a path: it stands for topic, partition and offset."""

FIELD_TREATMENTS = tuple(key for key in FieldsSection.model_fields if key != "unlisted")
"""The keys of ``fields`` that hold paths, as a list or as the keys of a mapping."""

WHOLE = ("keep", "drop")
"""The treatments of whole segments and fields of HL7 v2 messages."""


class ConfiguredPaths:
    """All paths of a configuration, each read once, and what is wrong with them.

    places: those of each attribute's codes. fields: the path of each text, by treatment. keys: the paths that have one
    value in a record, by their location. problems: paths that cannot be read, kept fields that contain masked ones, and
    fields within references. The plan of the pipeline checks the rest when it is built.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.problems: list[Problem] = []
        self._form = configuration.records
        self._located: list[tuple[Location, Path]] = []
        attributes, fields = configuration.attributes, configuration.fields
        self.places = {name: self._places(("attributes", name), each) for name, each in attributes.items()}
        self.fields = {key: self._treated(("fields", key), getattr(fields, key)) for key in FIELD_TREATMENTS}
        self.keys = self._keys(configuration)
        self.problems += [*_kept_masks(self._located), *_within_references(self._located)]

    def _read(self, at: Location, text: str, read: Callable[[str, str], Path]) -> Path | None:
        """Return a path; None if there is a problem."""
        try:
            path = read(self._form, text)
        except ConfigurationError as error:
            self.problems.append((at, str(error)))
            return None
        self._located.append((at, path))
        return path

    def _places(self, at: Location, attribute: AttributeSection) -> list[Place]:
        texts = alternatives(attribute.path)
        read = [self._read((*at, "path"), text, field_path) for text in texts]
        copies = [self._read((*at, "copies", i), text, field_path) for i, text in enumerate(attribute.copies)]
        places = list[Place]()
        for code in [path for path in read if path is not None] or [compile_path("code")]:
            of_code = partial(label_path, code=code, is_one=not texts[1:])
            label = None if attribute.label is None else self._read((*at, "label"), attribute.label, of_code)
            places.append(Place(code, label, () if places else tuple(filter(None, copies))))
        return places

    def _treated(self, at: Location, given: tuple[str, ...] | Mapping[str, object]) -> dict[str, Path]:
        read, paths = partial(field_path, whole=at[-1] in WHOLE), dict[str, Path]()
        for i, text in enumerate(given):
            if path := self._read((*at, text if isinstance(given, Mapping) else i), text, read):
                paths[text] = path
        return paths

    def _keys(self, configuration: Configuration) -> dict[Location, Path]:
        texts: dict[Location, str | None] = {("noise_key",): configuration.noise_key}
        texts |= {("fields", "shift", path, "key"): rule.key for path, rule in configuration.fields.shift.items()}
        context = getattr(configuration.mechanism, "context", None) or ()
        texts |= {("mechanism", "context", text): text for text in context}
        given = {at: text for at, text in texts.items() if text is not None and text != POSITION}
        paths = {at: self._read(at, text, key_path) for at, text in given.items()}
        return {at: path for at, path in paths.items() if path is not None}

    @property
    def _types(self) -> list[str]:
        """The types of FHIR resources, or the segments of HL7 v2, of everything that a masked message has."""
        codes = (path for places in self.places.values() for place in places for path in (place.path, *place.copies))
        listed = (path for paths in self.fields.values() for path in paths.values())
        starts = (compile_path(path.text).steps[0] for path in (*codes, *listed))
        return [step.key for step in starts if isinstance(step, NameStep)]

    def fhir_types(self, *, keeps_others: bool) -> frozenset[str] | None:
        """Return the types of resources that are kept: all, or those that the paths name; None if there are none."""
        types = R4_TYPES if keeps_others else frozenset(self._types)
        return types - {BUNDLE} if self._form == "fhir" else None

    @property
    def always_kept(self) -> tuple[Path, ...]:
        """The paths that make a message valid: the types of FHIR resources, the order and the header of HL7 v2."""
        if self._form == "hl7v2":
            return tuple(kept_paths(self._types))
        kinds = sorted({*self._types} - {BUNDLE}) if self._form == "fhir" else []
        types = [fhir_path(compile_path(f"{kind}.resourceType")) for kind in kinds]
        return (TYPE_PATH, *types) if self._form == "fhir" else ()


def field_path(form: str, text: str, *, whole: bool = False, first: bool = False) -> Path:
    """Return the path of a field or an attribute. Raises ConfigurationError.

    form: what records are. whole: whether it may be that of a whole segment or field of an HL7 v2 message. first:
    whether it selects the first value only.
    """
    path = compile_path(text)
    if form == "hl7v2":
        return hl7_path(path, first=first, whole=whole)
    return fhir_path(path, first=first) if form == "fhir" else path


def key_path(form: str, text: str) -> Path:
    """Return the path of a key, such as ``noise_key``, which has one value in a record: that of the first of several
    paths, as in ``after.id | before.id``, which has one. Raises ConfigurationError."""
    first, *others = alternatives(text)
    path = field_path(form, first, first=True)
    return Path(text, path.steps, key_path(form, " | ".join(others))) if others else path


def label_path(form: str, label: str, *, code: Path, is_one: bool) -> Path:
    """Return the path of the labels of the codes at a path. Raises ConfigurationError.

    is_one: whether the attribute has one path; with several, labels stand beside each code.
    """
    if not label.startswith(".") or form == "hl7v2":
        if not is_one:
            raise ConfigurationError(f"{label!r} is the label of one path: use a name beside each code, as .text")
        return field_path(form, label)
    beside = compile_path(f"code{label}").steps[1:]
    if any(not isinstance(step, NameStep) for step in beside):
        raise ConfigurationError(f"{label!r} is not allowed: use names, as in .display")
    return Path(f"{label} beside {code.text}", (*code.steps[:-1], *beside))


def _kept_masks(located: list[tuple[Location, Path]]) -> Iterator[Problem]:
    """Yield the kept fields that contain a masked one: a label or a copy beside it could be kept, too."""
    for at, path in located:
        if at[:2] == ("fields", "keep"):
            owner = next((other for other, it in located if other[0] == "attributes" and path.may_meet(it)), None)
            if owner is not None:
                said = f"contains {format_location(owner)}, which is masked: list only the fields beside it"
                yield at, f"{path.text!r} {said}"


def _within_references(located: list[tuple[Location, Path]]) -> Iterator[Problem]:
    """Yield the fields inside a Reference, which would be left empty: longer paths decide what becomes of its parts."""
    references = [(at, path) for at, path in located if at[:2] == ("fields", "references")]
    for at, path in located:
        for reference, outer in references:
            if at[0] == "fields" and len(path.steps) > len(outer.steps) and path.may_meet(outer):
                said = "of which reference and type are left and all else is dropped: list only one of them"
                yield at, f"{path.text!r} is inside {format_location(reference)} {outer.text!r}, {said}"
