"""The runbooks of the alerts as pages of the HTTP server, those of the version that runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from html import escape
from pathlib import Path

from stream_masker.service.observability.health import Page

RUNBOOK_FOLDER = "/runbooks/"
"""The path of the pages; each has the name of its alert."""

HERE = Path(__file__).resolve()
RUNBOOK_FILES = (HERE.with_name("runbooks.md"), HERE.parents[3] / "docs" / "kafka" / "alerts.md")
"""The page of the documentation with a section for each alert: in an installed package, and in a source checkout."""

RUNBOOK = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OTHER_ALERT = re.compile(r"\[(\w+)\]\(#\w+\)")
OTHER_PAGE = re.compile(r"\[([^\]]+)\]\([^)#][^)]*\)")
CODE = re.compile(r"`([^`]+)`")
WRAPPED = re.compile(r"(?<!\n)\n(?!\n|\d\. |\* ) *")
"""The end of a line within a paragraph or an item of a list."""

PAGE_STYLE = (
    ":root{color-scheme:light dark}body{max-width:48rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui}"
    "h1{font-size:1.5rem;overflow-wrap:anywhere}pre{white-space:pre-wrap;font:inherit;overflow-wrap:anywhere}"
)


def runbook_pages() -> Mapping[str, Page]:
    """Return a page for each alert, by its path."""
    text = next(file for file in RUNBOOK_FILES if file.is_file()).read_text(encoding="utf-8")
    return {RUNBOOK_FOLDER + name: partial(_page, name, section) for name, section in RUNBOOK.findall(text)}


def _page(name: str, text: str, query: str) -> str:
    """Return a section as HTML; ``query``: that of the URL, which changes nothing."""
    text = CODE.sub(r"<code>\1</code>", WRAPPED.sub(" ", escape(text.strip())))
    shown = OTHER_ALERT.sub(rf'<a href="{RUNBOOK_FOLDER}\1">\1</a>', OTHER_PAGE.sub(r"\1", text))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{PAGE_STYLE}</style></head>'
        f"<body><main><h1>{name}</h1><pre>{shown}</pre></main></body></html>"
    )
