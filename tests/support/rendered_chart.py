"""The Helm chart as it renders, for tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.documentation import ROOT

CHART = ROOT / "deploy" / "chart"
EXAMPLE = ROOT / "deploy" / "example-values.yaml"
KUBERNETES = "1.33.0"

helm = shutil.which("helm")
NEEDS_HELM = pytest.mark.skipif(helm is None, reason="no helm: .ci/helm FOLDER installs it, for a FOLDER of the PATH")

Objects = dict[tuple[str, str], dict[str, Any]]
"""Objects of Kubernetes by kind and name."""


def at(path: str) -> str:
    """Return a pattern of the place of a refused value: versions of Helm write it with slashes or with dots."""
    return path.replace("/", "[./]")


def rendered_text(values: Any, *, example: bool = True, arguments: Sequence[str] = (), chart: Path = CHART) -> str:
    """Return the manifests that the chart renders for these values. Raises ValueError if helm refuses them.

    They are without the empty lines between manifests, whose number depends on the version of Helm.
    """
    files = ["-f", str(EXAMPLE)] if example else []
    command = [helm, "template", "release", str(chart), "--kube-version", KUBERNETES, *files, "-f", "-", *arguments]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return re.sub(r"\n+(?=---\n|\Z)", "\n", done.stdout)


def rendered(values: Any, *, example: bool = True, arguments: Sequence[str] = (), chart: Path = CHART) -> Objects:
    """Return the objects that the chart renders for these values. Raises ValueError if helm refuses them."""
    text = rendered_text(values, example=example, arguments=arguments, chart=chart)
    manifests = yaml.load_all(text, Loader=yaml.CSafeLoader)
    return {(one["kind"], one["metadata"]["name"]): one for one in manifests if one}
