"""The configuration section of files of events: how the rows of tables and the messages of Protobuf files are read."""

from __future__ import annotations

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from stream_masker.service.configuration.base import FieldPath, NonEmptyText, Section


class ProtobufSection(Section):
    """The messages of Protobuf files, which do not describe themselves."""

    descriptors: NonEmptyText = Field(
        description="A file with the descriptor set of the schema and its imports, relative to the configuration "
        "file's folder: `protoc --include_imports --descriptor_set_out=FILE`, or `buf build -o FILE`."
    )
    message: NonEmptyText = Field(description="The full name of the message type, such as `example.Discharge`.")


class ProduceSection(Section):
    """The conversion of files to events, by `stream-masker produce` and all other commands that read events."""

    columns: dict[NonEmptyText, FieldPath] = Field(
        default_factory=dict,
        description="The field path of each column. If empty, each column becomes a field of its name.",
    )
    key: FieldPath | SkipJsonSchema[None] = Field(
        default=None, description="The path of the field whose value becomes the message key. Default: no key."
    )
    null_values: tuple[str, ...] = Field(
        default=("",), description="The cell texts that stand for a missing value, whose field is left out."
    )
    numbers: tuple[NonEmptyText, ...] = Field(
        default=(), description="The columns whose cells are numbers. The cells of all other columns stay text."
    )
    lists: dict[NonEmptyText, NonEmptyText] = Field(
        default_factory=dict,
        description="The separator of each column of a CSV file whose cells have several codes, such as `;`: a cell "
        "becomes a list of texts without the spaces around them, and a masked list a cell again.",
    )
    protobuf: ProtobufSection | SkipJsonSchema[None] = Field(
        default=None, description="The messages of files whose names end in `.pb` or `.binpb`. Default: not read."
    )
