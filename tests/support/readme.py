"""The README's parts that are made from the code, and its examples. ``python tests/support/readme.py`` rewrites it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from stream_masker.cli import COMMANDS
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.pipeline import reasons
from stream_masker.service.observability.metric_definitions import metrics_table

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
EXAMPLE = ROOT / "tests" / "service" / "configuration" / "example.yaml"


def configuration() -> str:
    return f"```yaml\n{EXAMPLE.read_text().strip()}\n```\n"


def commands() -> str:
    rows = "".join(f"| `{usage}` | {what} |\n" for usage, what in _usages())
    return f"| command | what it does |\n| --- | --- |\n{rows}"


def _usages() -> Iterator[tuple[str, str]]:
    for name, (place, what) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, click.Group):
            for part, child in command.commands.items():
                yield _usage(f"stream-masker {name} {part}", child), child.get_short_help_str(200)
        else:
            yield _usage(f"stream-masker {name}", command), what


def _usage(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    flags = [max(p.opts, key=len) for p in command.params if isinstance(p, click.Option) and p.name != "help"]
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    return " ".join([path, *(f"[{flag}]" for flag in flags), *arguments])


def metrics() -> str:
    return metrics_table()


def reason_table() -> str:
    body = ast.parse(inspect.getsource(reasons.Reason)).body[0].body
    told = [node.value.value for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    rows = zip(reasons.Reason, told[1:], strict=True)
    return "| reason | meaning |\n| --- | --- |\n" + "".join(f"| `{reason}` | {text} |\n" for reason, text in rows)


def methods() -> str:
    """Every mechanism's method card: 2017's Table 9, extended to all methods."""
    head = ["`mechanism.name`", "of", "attributes", "taxonomies", "keeps", "guarantees", "latency", "cost per record"]
    rows = [["---"] * len(head), *(_method(name, kind.method_card) for name, kind in MECHANISMS.items())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [head, *rows])


def _method(name: str, card: MethodCard) -> list[str]:
    preserves = "; ".join(card.preserves)
    return [
        f"`{name}`",
        card.source,
        card.attributes,
        card.taxonomies,
        preserves,
        card.guarantee,
        card.latency,
        card.cost,
    ]


PARTS = {
    "configuration": configuration,
    "commands": commands,
    "methods": methods,
    "metrics": metrics,
    "reasons": reason_table,
}


def rewritten(text: str) -> str:
    """The README with every generated part as the code has it now."""
    for name, make in PARTS.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        pattern = re.compile(re.escape(start) + r"(?:.*?" + re.escape(end) + r")?", re.DOTALL)
        text = pattern.sub((start + make() + end).replace("\\", r"\\"), text, count=1)
    return text


def blocks(language: str, heading: str = "") -> list[str]:
    """The fenced blocks of a language, in the section below a heading (all of them without one)."""
    text = README.read_text()
    if heading:
        text = re.split(r"\n#{1,3} ", text[text.index(f"# {heading}\n") + 2 :], maxsplit=1)[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text()))
