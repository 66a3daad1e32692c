"""The compiled reader against the literal one, on plans and records made up at random."""

from __future__ import annotations

import random
from typing import Any

from support.codecs import as_plain
from support.documents import written

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import FilterStep, IndexStep, NameStep
from stream_masker.pipeline.records import InputRecord, Inputs

STEPS = [".a", ".b", ".c", "[0]", "[1]", "[*]", "[?a=1]", "[?b=x]", "[?a='1']", "[?a.b=1]"]
SMALL = [None, True, 1, "1", "x", "I10", "e119", "E11.9", 1.5, "I110", [], {}, {"a": 1}, [1, "x"], {"b": "x", "c": 1}]


def random_path(chance: random.Random, *, arrays: int) -> str:
    steps = [step for step in chance.choices(STEPS, k=chance.randint(0, 3)) if step != "[*]"]
    steps = steps[:-1] if steps and steps[-1].startswith("[?") else steps
    steps[0:0] = ["[*]"] * (arrays and not steps)
    if arrays and "[*]" not in steps:
        steps.insert(chance.randint(0, max(0, len(steps) - 1)), "[*]")
    return chance.choice("abc") + "".join(steps)


def random_plan(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    attributes: dict[str, Any] = {}
    for number in range(chance.choice([1, 1, 2, 3])):
        arrays = int(chance.random() < 0.4)
        given: dict[str, Any] = {"path": random_path(chance, arrays=arrays)}
        given["missing"] = chance.choice(["keep", "keep", "keep", "reject"])
        given["unknown"] = chance.choice(["suppress", "ancestor", "reject"])
        if chance.random() < 0.4:
            given["label"] = random_path(chance, arrays=arrays)
        given["copies"] = [random_path(chance, arrays=arrays) for _ in range(chance.choice([0, 0, 1, 2]))]
        attributes[f"x{number}"] = given
    names = ["keep", "drop", "pseudonymize"]
    fields = {
        n: [random_path(chance, arrays=chance.choice([0, 1])) for _ in range(chance.randint(0, 3))] for n in names
    }
    more: dict[str, Any] = {"unlisted": chance.choice(["keep", "drop"]), "fields": fields}
    if chance.random() < 0.2:
        more["noise_key"] = random_path(chance, arrays=0)
    if chance.random() < 0.2:
        more["alpha"] = {"path": random_path(chance, arrays=0)}
    if chance.random() < 0.4:
        number = {"path": random_path(chance, arrays=0), "missing": chance.choice(["keep", "reject"])}
        more["numeric"] = {"y": {**number, "integer": chance.random() < 0.5}}
    return attributes, more


def grown(value: Any, steps: list[Any], chance: random.Random) -> Any:
    """A value in which the steps of a path lead on, most often."""
    if not steps or chance.random() < 0.03:
        return chance.choice(SMALL if chance.random() < 0.3 else ["I10", "e119", "E11.9", "I110", "E03", 7, 0.25])
    step, rest = steps[0], steps[1:]
    if isinstance(step, NameStep):
        value = dict(value) if isinstance(value, dict) else {}
        return {**value, step.key: grown(value.get(step.key), rest, chance)}
    value = list(value) if isinstance(value, list) else [chance.choice(SMALL) for _ in range(chance.choice([0, 1, 2]))]
    where = step.position if isinstance(step, IndexStep) else chance.randint(0, len(value))
    value += [{}] * (where + 1 - len(value))
    value[where] = grown(value[where], rest, chance)
    if isinstance(step, FilterStep):
        wanted: Any = step.value if step.quoted or step.value == "x" else int(step.value)
        for key in reversed(step.field[1:]):
            wanted = {key: wanted}
        value = [one if isinstance(one, dict) else {} for one in value]
        value[where] = {**value[where], step.field[0]: wanted}
    return value


def test_any_plans(bench):
    """Plans of few names, so that their paths meet, and records that their paths lead through."""
    chance, done, taken = random.Random(11), 0, 0
    while done < 250:
        attributes, more = random_plan(chance)
        try:
            on_bench = bench(attributes, **more)
        except ConfigurationError:
            continue
        if not on_bench.masker.is_compiled:
            continue
        done += 1
        taken += differences(on_bench, [random_document(on_bench.plan, chance) for _ in range(12)])
    assert taken > 300


def random_document(plan: Any, chance: random.Random) -> bytes:
    policy = plan.fields
    read = [path for a in plan.attributes for path in a.written if path == a.path or chance.random() < 0.6]
    read += [number.path for number in plan.numeric]
    read += [path for path in (plan.noise_key, plan.alpha and plan.alpha.path) if path is not None]
    kept = [path for path in (*policy.keep, *policy.drop, *policy.pseudonymize) if chance.random() < 0.5]
    document: Any = {"a": 1} if chance.random() < 0.1 else {}
    for path in [*kept, *read]:
        document = grown(document, list(path.steps), chance)
    return written(document, chance).encode()


def differences(on_bench: Any, values: list[bytes]) -> int:
    """Fails when there are any; how many records the compiled reader took."""
    literal = RecordMasker(on_bench.plan, on_bench.mechanism, b"a secret of the tests", compiled=False)
    records = [InputRecord(i, value) for i, value in enumerate(values)]
    one, other = (m.mask("t", 1, records, statistics_version=3) for m in (on_bench.masker, literal))
    assert one.outcomes == other.outcomes
    assert as_plain(one.blocks) == as_plain(other.blocks)
    return len(on_bench.masker._codec.scanner.read(Inputs.of(records)).indices)
