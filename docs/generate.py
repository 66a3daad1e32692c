"""Generated parts of the documentation.

A page holds the comment ``<!-- generated: NAME -->``. The build replaces it by what the function of that name in
``PARTS`` returns, so that the reference pages are always those of the code. MkDocs loads this module as a hook.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import registries as code
import yaml
from equations import equation_table
from guarantees import METHODS
from notebook_cells import executed

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "stream_masker"
EXAMPLE = ROOT / "tests" / "service" / "configuration" / "example.yaml"
MARK = re.compile(r"<!-- generated: ([a-z0-9-]+) -->")
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
BAR = re.compile(r"(`[^`]*`)|\|")
"""Code in Markdown, which is the group, or a bar outside of it."""

HYPHENATED = re.compile(r"(?<![^\s>])[^\s<>]{0,39}-[^\s<>]{0,39}(?![^\s<])")
"""Words with a hyphen that fit the width of a telephone."""

Schema = Mapping[str, Any]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return filled(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs for the content of every page: browsers would break code after a hyphen, such as ``--``."""
    return INLINE_CODE.sub(lambda code: HYPHENATED.sub(r'<span class="word">\g<0></span>', code[0]), html)


def filled(text: str) -> str:
    """Return the page with every generated part in its place. Raises KeyError for a part that does not exist."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, cells))} |\n" for cells in lines)


def _cell(text: str) -> str:
    """Escape what would end a cell, except in code, where it does not."""
    return BAR.sub(lambda found: found[1] or "&#124;", text)


# Configuration


def configuration_example() -> str:
    """Return the complete example, which shows every key."""
    return f"```yaml\n{EXAMPLE.read_text().strip()}\n```\n"


def configuration_keys() -> str:
    """Every key of the configuration, a table for each section."""
    schema = code.configuration_schema()
    return "\n".join(_section(name, schema["properties"][name], schema) for name in schema["properties"])


def mechanism_parameters() -> str:
    """Return the parameters of every mechanism."""
    schema = code.configuration_schema()
    sections = [_resolved(option, schema) for option in schema["properties"]["mechanism"]["anyOf"]]
    return "\n".join(_mechanism(section, schema) for section in sections)


def _mechanism(section: Schema, schema: Schema) -> str:
    name = section["properties"]["name"]["const"]
    keys = {key: value for key, value in section["properties"].items() if key != "name"}
    text = _described(section) + "\n\n"
    return f"### `{name}` {{ #{name} }}\n\n{text}{_keys(keys, section, schema)}"


def _section(name: str, given: Schema, schema: Schema) -> str:
    head = f"### `{name}` {{ #{name} }}\n\n"
    if name == "mechanism":
        return f"{head}{_described(given)} See [the parameters of each mechanism](#mechanism-parameters).\n"
    if "additionalProperties" in given and "$ref" not in given:
        return head + f"{_described(given)}\n\n" + _alternatives(given["additionalProperties"], schema)
    section = _resolved(given, schema)
    if "properties" not in section:
        required = name in schema["required"]
        return head + table(("type", "default", "meaning"), [_value(given, schema, required=required)])
    return head + f"{_described(section)}\n\n" + _keys(section["properties"], section, schema)


def _alternatives(given: Schema, schema: Schema) -> str:
    sections = [_resolved(option, schema) for option in given.get("anyOf", [given])]
    return "\n".join(f"{_described(s)}\n\n{_keys(s['properties'], s, schema)}" for s in sections)


def _keys(keys: Mapping[str, Schema], section: Schema, schema: Schema) -> str:
    required = section.get("required", ())
    rows = ((f"`{key}`", *_value(value, schema, required=key in required)) for key, value in keys.items())
    return table(("key", "type", "default", "meaning"), rows) if keys else "No parameters.\n"


def _value(value: Schema, schema: Schema, *, required: bool = False) -> tuple[str, str, str]:
    default = "required" if required else _literal(value["default"]) if "default" in value else "none"
    return _type(value, schema), default, _described(value)


def _type(value: Schema, schema: Schema) -> str:
    if "$ref" in value:
        return "section: " + ", ".join(f"`{key}`" for key in _resolved(value, schema)["properties"])
    if "anyOf" in value:
        return " or ".join(_type(option, schema) for option in value["anyOf"])
    if "enum" in value or "const" in value:
        return ", ".join(_literal(choice) for choice in value.get("enum", [value.get("const")]))
    return _plain_type(value, schema)


def _plain_type(value: Schema, schema: Schema) -> str:
    match value.get("type"):
        case "array":
            return f"list of {_type(value.get('items', {}), schema)}"
        case "object" if isinstance(value.get("additionalProperties"), Mapping):
            return f"{_type(value['additionalProperties'], schema)} by name"
        case str(kind):
            return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)
        case [*kinds]:
            return " or ".join(kinds)
        case _:
            return "value"


def _literal(value: Any) -> str:
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    return f"`{shown if shown is not None else value}`" if value not in ("", [], {}) else f"`{value!r}`"


def _described(given: Schema) -> str:
    return " ".join(str(given.get("description", "")).split())


def _resolved(given: Schema, schema: Schema) -> Schema:
    reference = given.get("$ref")
    return schema["$defs"][reference.removeprefix("#/$defs/")] if reference else given


# Commands


def command_summary() -> str:
    """Every command with its options, a line each."""
    rows = [(f"[`{path}`](#{_anchor(path)})", command.get_short_help_str(200)) for path, command in _commands()]
    return table(("command", "what it does"), rows)


def exit_codes() -> str:
    """Return the exit codes of all commands."""
    return table(("exit code", "meaning"), [(str(code), meaning) for code, meaning in code.EXIT_CODES.items()])


def command_reference() -> str:
    """Return the help of every command."""
    return "\n".join(_command(path, command) for path, command in _commands())


def _commands() -> Iterator[tuple[str, click.Command]]:
    for name, (place, _) in code.COMMANDS.items():
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, click.Group):
            yield from ((f"stream-masker {name} {part}", child) for part, child in command.commands.items())
        else:
            yield f"stream-masker {name}", command


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    text, _, examples = inspect.cleandoc(command.help or "").replace("\b\n", "").partition("\nExample")
    shown = inspect.cleandoc(examples.partition("\n")[2])
    usage = f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    example = f'```text title="Examples"\n{shown}\n```\n'
    return "\n".join([f"## {path}\n", f"{text.strip()}\n", usage, _options(command, context), example])


def _options(command: click.Command, context: click.Context) -> str:
    records = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option)]
    rows = [(f"`{record[0]}`", record[1]) for record in records if record]
    return table(("option", "meaning"), rows) if rows else ""


def _anchor(path: str) -> str:
    return path.replace(" ", "-")


# Mechanisms, metrics, reasons, messages


def methods() -> str:
    """What each mechanism does: 2017's Table 9, extended to all methods."""
    head = ("`mechanism.name`", "source", "attributes", "records", "preserves", "guarantee")
    return table(head, [_method(name, kind) for name, kind in code.MECHANISMS.items()])


def _method(name: str, kind: type[code.Mechanism]) -> tuple[str, ...]:
    link, records = f"[`{name}`](configuration.md#{name})", "in groups" if kind.needs_group else "each alone"
    method = METHODS[name]
    return link, method.source, method.takes, records, "; ".join(kind.preserves), method.guarantee


def reasons() -> str:
    """Every reason of a rejection, with the docstring below its name."""
    body = ast.parse(inspect.getsource(code.Reason)).body[0].body  # type: ignore[attr-defined]
    texts = [node.value.value for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return table(("reason", "meaning"), [(f"`{r}`", str(text)) for r, text in zip(code.Reason, texts[1:], strict=True)])


def message(name: str) -> Callable[[], str]:
    """Return a function that describes the message of a schema."""
    return lambda: _message(code.load_schema(name))


def masked_event_headers() -> str:
    """Return the headers that stream-masker adds to a masked record."""
    schema = code.load_schema("masked-event")
    return _fields(schema["properties"]["headers"], schema)


def _message(schema: Schema) -> str:
    described = _described(schema)
    variants = [_resolved(option, schema) for option in schema.get("oneOf", schema.get("anyOf", [schema]))]
    return f"{described}\n\n" + "\n".join(_fields(variant, schema) for variant in variants)


def _fields(section: Schema, schema: Schema) -> str:
    required = section.get("required", ())
    rows = [
        (f"`{key}`", _field_type(value, schema), "yes" if key in required else "no", _described(value))
        for key, value in section.get("properties", {}).items()
    ]
    return table(("field", "type", "always there", "meaning"), rows)


def _field_type(value: Schema, schema: Schema) -> str:
    found = _resolved(value, schema)
    if "$ref" in found.get("items", {}):
        return "list of objects"
    return "object" if found.get("type") == "object" or "anyOf" in found else _type(found, schema)


# Architecture


def folders() -> str:
    """Every folder of the package, with the first sentence of its docstring."""
    found = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
    rows = [(f"`{folder.relative_to(PACKAGE).as_posix()}`", _first_sentence(folder)) for folder in found[1:]]
    return table(("folder", "contents"), rows)


def _first_sentence(folder: Path) -> str:
    paragraph = " ".join(_docstring(folder / "__init__.py").partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph)[0].replace("``", "`")


def _docstring(module: Path) -> str:
    return ast.get_docstring(ast.parse(module.read_text())) or ""


def chart_values() -> str:
    """Return the values of the chart, from the table in its README, which ``deploy/generate.py`` writes."""
    text = (ROOT / "deploy" / "chart" / "README.md").read_text()
    return text.partition("<!-- values -->\n")[2].partition("<!-- end of values -->")[0]


def alert_table() -> str:
    """Return the alerts of the chart, from the file that ``deploy/generate.py`` writes."""
    (group,) = yaml.safe_load((ROOT / "deploy" / "chart" / "files" / "alerts.yaml").read_text())["groups"]
    rows = [
        (f"`{rule['alert']}`", rule["labels"]["severity"], rule["for"], f"`{rule['expr']}`") for rule in group["rules"]
    ]
    return table(("alert", "severity", "after", "expression"), rows)


def metrics() -> str:
    """Every metric of the service."""
    rows = [
        (f"`{d.full_name}`", d.kind, ", ".join(f"`{one}`" for one in d.labels), ", ".join(d.processes), d.help)
        for d in code.ALL_METRICS
    ]
    return table(("metric", "kind", "labels", "of", "meaning"), rows)


PARTS: Mapping[str, Callable[[], str]] = {
    "alerts": alert_table,
    "calibration-block": message("calibration-block"),
    "chart-values": chart_values,
    "command-reference": command_reference,
    "command-summary": command_summary,
    "exit-codes": exit_codes,
    "configuration-example": configuration_example,
    "configuration-keys": configuration_keys,
    "drift": message("drift"),
    "equations": equation_table,
    "folders": folders,
    "masked-event": message("masked-event"),
    "masked-event-headers": masked_event_headers,
    "mechanism-parameters": mechanism_parameters,
    "methods": methods,
    "metrics": metrics,
    "notebook": executed,
    "reasons": reasons,
    "rejection": message("rejection"),
    "statistics": message("statistics"),
}
