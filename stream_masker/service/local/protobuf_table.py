"""Protobuf files as events: messages with their lengths before them as lines of JSON, and masked lines as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path as File
from typing import Any

from stream_masker.errors import ConfigurationError, ServiceError, installation_of
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.fields.sections import ProduceSection, ProtobufSection
from stream_masker.service.files.inputs import InputFile, read_errors
from stream_masker.service.files.lines import NumberedLine, WriteLine
from stream_masker.service.files.schemas import beside_messages
from stream_masker.service.formats.protobuf_messages import (
    described_messages,
    document_message,
    message_document,
    unparsed_field,
)

SHOWN_MESSAGES = 10
"""The number of message types that an error lists."""


class ProtobufTable:
    """A file of messages of one type, each after its length as a varint. Their fields are those of the events."""

    kind = "protobuf"

    def __init__(self, message: Any, file: InputFile) -> None:
        self.columns: Mapping[str, Path] = {}
        self._message = message
        self._file = file

    def probes(self) -> Sequence[JsonValue]:
        return []

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the messages as lines of JSON. Raises ServiceError for a file that cannot be read to its end."""
        from google.protobuf.proto import parse_length_prefixed

        number = 1
        while (message := self._next(parse_length_prefixed, number)) is not None:
            yield number, message_document(message)
            number += 1

    def _next(self, parse: Any, number: int) -> Any:
        with read_errors(self._file.name):
            try:
                return parse(self._message, self._file.stream)
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - protobuf raises several kinds of errors for damaged messages
                raise ServiceError(
                    f"{self._file.name} cannot be read to its end: message {number} is not a complete "
                    f"{self._message.DESCRIPTOR.full_name} after its length ({type(error).__name__})"
                ) from None

    def row(self, line: bytes) -> Any:
        """Return the message of a masked line. Raises RecordRejectedError, with the field, if it does not fit."""
        try:
            message = document_message(self._message, line)
        except Exception as error:  # noqa: BLE001 - its text may contain a value
            raise RecordRejectedError(Reason.SCHEMA_MISMATCH, unparsed_field(self._message.DESCRIPTOR, error)) from None
        if not message.IsInitialized():
            raise RecordRejectedError(Reason.SCHEMA_MISMATCH, message.FindInitializationErrors()[0])
        return message

    @contextmanager
    def writer(self, stream: Any, columns: Mapping[str, Any], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that writes a masked line as a message, after its length.

        The function raises ServiceError for a record that does not fit the message type.
        """
        from google.protobuf.proto import serialize_length_prefixed

        def write(line: bytes) -> None:
            try:
                message = self.row(line)
            except RecordRejectedError as error:
                name = self._message.DESCRIPTOR.full_name
                where = f" at {error.field}" if error.field else ""
                raise ServiceError(
                    f"a masked record does not fit the message {name} of {self._file.name}{where}: write a .jsonl file"
                ) from None
            serialize_length_prefixed(message, stream)

        yield write


@contextmanager
def open_protobuf(file: InputFile, settings: ProduceSection) -> Iterator[ProtobufTable]:
    """Open a Protobuf file of the configured message type.

    Raises ConfigurationError if none is configured or the descriptor set does not have it, and ServiceError if the
    extra ``registry`` is not installed.
    """
    if settings.protobuf is None:
        raise ConfigurationError(
            f"{file.name} is a Protobuf file, by its name: say which messages it has with produce.protobuf, as "
            f"descriptors and message, or with --descriptors and --message of config init{beside_messages(file.name)}"
        )
    try:
        from google.protobuf.message_factory import GetMessageClass
    except ModuleNotFoundError:
        raise ServiceError(f"Protobuf needs protobuf: {installation_of('registry')}") from None
    yield ProtobufTable(GetMessageClass(_message_type(settings.protobuf)), file)


def _message_type(section: ProtobufSection) -> Any:
    name = section.descriptors
    try:
        kinds = described_messages(File(name).read_bytes())
    except OSError as error:
        raise ConfigurationError(f"produce.protobuf.descriptors: {name} cannot be read: {error.strerror}") from None
    except KeyError:
        raise ConfigurationError(
            f"produce.protobuf.descriptors: {name} lacks files that it imports: use protoc --include_imports"
        ) from None
    except Exception as error:  # noqa: BLE001 - protobuf raises several kinds of errors for other files
        raise ConfigurationError(
            f"produce.protobuf.descriptors: {name} is not a descriptor set ({type(error).__name__}): "
            "use protoc --include_imports --descriptor_set_out"
        ) from None
    if section.message not in kinds:
        shown = ", ".join(list(kinds)[:SHOWN_MESSAGES]) + (", ..." if len(kinds) > SHOWN_MESSAGES else "")
        raise ConfigurationError(
            f"produce.protobuf.message: {name} has no message {section.message!r}: use one of {shown or 'none'}"
        )
    return kinds[section.message]
