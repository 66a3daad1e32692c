"""A schema registry for tests: the client's own mock registry behind the registry's HTTP API, on a loopback port."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import SerializationContext

AVRO_EVENT = {
    "type": "record",
    "name": "Discharge",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "patient",
            "type": {"type": "record", "name": "Patient", "fields": [{"name": "id", "type": "string"}]},
        },
        {"name": "first", "type": "string"},
        {"name": "second", "type": ["null", "string"], "default": None},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
"""The schema of the events of ``service.event``, with an instant and a note."""

JSON_EVENT = {
    "title": "Discharge",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "patient": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "first": {"type": "string"},
        "second": {"type": "string"},
        "note": {"type": "string"},
    },
    "required": ["id", "first"],
}


def mock_client() -> SchemaRegistryClient:
    """The client's mock registry, which has its schemas in memory."""
    return SchemaRegistryClient.new_client({"url": "mock://"})


def register(client: SchemaRegistryClient, subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> int:
    """Register a schema and return its id."""
    return client.register_schema(subject, Schema(json.dumps(schema), kind, **more))


def avro_values(client: SchemaRegistryClient, topic: str, schema: Any, values: list[Any], part: str = "value") -> list:
    """Values as a producer with the client's Avro serializer writes them."""
    serializer = AvroSerializer(client, json.dumps(schema))
    return [serializer(value, SerializationContext(topic, part)) for value in values]


def json_values(client: SchemaRegistryClient, topic: str, schema: Any, values: list[Any]) -> list[bytes]:
    """Values as a producer with the client's JSON Schema serializer writes them."""
    serializer = JSONSerializer(json.dumps(schema), client)
    return [serializer(value, SerializationContext(topic, "value")) for value in values]


def documents(client: SchemaRegistryClient, values: list[bytes], part: str = "value") -> list[Any]:
    """What a consumer with the client's deserializers reads."""
    readers = {"AVRO": AvroDeserializer(client), "JSON": JSONDeserializer(None, schema_registry_client=client)}
    kinds = [client.get_schema(int.from_bytes(value[1:5], "big")).schema_type for value in values]
    context = SerializationContext("any", part)
    return [readers[kind](value, context) for kind, value in zip(kinds, values, strict=True)]


class RegistryServer:
    """Serves the schemas of ``client``, with the error codes of Confluent's registry.

    status: what every request gets instead; code: its error code, None for a page without one, as a proxy answers;
    login: ``user:password`` that requests need.
    """

    def __init__(self) -> None:
        self.client = mock_client()
        self.status: int | None = None
        self.code: int | None = None
        self.login: str | None = None
        self.requests: list[str] = []
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, answer = registry.answer(self.path, self.headers.get("Authorization", ""))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        self.requests.append(path)
        if self.status is not None:
            return self.status, "a page" if self.code is None else {"error_code": self.code, "message": "of the test"}
        if self.login is not None and authorization != "Basic " + base64.b64encode(self.login.encode()).decode():
            return 401, {"error_code": 40101, "message": "unauthorized"}
        try:
            match urlsplit(path).path.strip("/").split("/"):
                case ["schemas", "ids", number]:
                    return 200, self.client.get_schema(int(number)).to_dict()
                case ["subjects", subject, "versions", version]:
                    return 200, self.client.get_version(unquote(subject), int(version)).to_dict()
        except SchemaRegistryError as error:
            code = 40403 if path.startswith("/schemas/ids") else 40401
            return error.http_status_code, {"error_code": code, "message": error.error_message}
        return 404, {"error_code": 404, "message": "no such path"}


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    server = RegistryServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
