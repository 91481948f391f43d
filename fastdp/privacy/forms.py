"""A statement in other forms: sentences, an entry of the Differential Privacy Deployments Registry, and
answers to the questions of NIST SP 800-226.

They are pure functions of `privacy.json` and promise exactly what it promises. What a statement does not hold
(who publishes, what for, who may see the raw data) is `OWNER` or an open question, for a person to fill in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import UsageError

OWNER = "to be filled in by the publisher"

_LEVELS = {"user": "User-level", "row": "Record-level", "event": "Event-level"}
_MECHANISMS = {
    "gaussian": "rounded Gaussian mechanism",
    "discrete-laplace": "discrete Laplace mechanism",
    "exponential": "exponential mechanism",
    "threshold": "rounded Gaussian mechanism with a threshold",
}


def as_form(statement: Mapping[str, Any], form: str) -> dict[str, Any] | str:
    """The statement as `text` (a string), `registry` or `sp800-226` (plain data)."""
    if form not in FORMS:
        raise UsageError(f"form= must be one of {', '.join(FORMS)}, got {form!r}")
    return FORMS[form](statement)


def text(statement: Mapping[str, Any]) -> str:
    """What is promised, to whom, by what means, and what is not: a page for people."""
    lines = [
        _headline(statement),
        "",
        f"Protected: {statement['unit']['adjacency']}.",
        f"Bound: {statement['bound']['how']}.",
        f"Noise: {_laws(statement)}; {statement['noise']['draws']:,} numbers drawn, "
        f"source: {statement['noise']['source']}.",
        f"Accounting: {_accounting(statement)}.",
        f"Mechanism: {_mechanism(statement)}.",
        f"Schema: {statement['schema']['name']}, from: {statement['schema']['provenance']}.",
        f"Other runs: {_other_runs(statement)}.",
    ]
    if statement["public_data"]:
        names = ", ".join(f"{p['name']} ({p['use']})" for p in statement["public_data"])
        lines.append(f"Public data used: {names}.")
    lines += ["", "Releases, in the order they were made:"]
    for part in statement["parts"]:
        lines += [f"  {line}" for line in _release_lines(part)]
    lines += ["", "Not protected:", *(f"  - {item}" for item in statement["not_protected"])]
    if statement["notes"]:
        lines += ["", "Notes:", *(f"  - {note}" for note in statement["notes"])]
    return "\n".join(lines)


def _form(statement: Mapping[str, Any], form: str) -> dict[str, Any]:
    """A form of `forms.json`, filled in. Each item of `sp800-226` has an `answer` taken from the statement,
    or a `question` where only the publisher can answer."""
    pure = statement["delta"] == 0
    if form == "registry" and not statement["private"]:
        raise UsageError(
            "the noise of this run came from a known seed, so the run is not a "
            "deployment to register; run it without seed="
        )
    said = [n for n in statement["notes"] if n.startswith(("epsilon ", "delta "))]
    facts = {
        **statement,
        "owner": OWNER,
        "variant": "pure" if pure else "approximate",
        "Variant": "Pure" if pure else "Approximate",
        "level": _LEVELS[statement["unit"]["kind"]],
        "unprotected": "; ".join(statement["not_protected"]),
        "parameters": {k: statement[k] for k in (("epsilon",) if pure else ("epsilon", "delta"))},
        "strength": said or "epsilon and delta are within the range that fastdp does not warn about",
        "releases": sum(_counts(statement).values()),
        "mechanism": _mechanism(statement),
        "accounting": _accounting(statement),
        "other_runs": _other_runs(statement),
        "tuning": _tuning(statement),
        "laws": _laws(statement),
        "exactness": _exactness(statement),
    }
    template = Path(__file__).with_name("forms.json").read_text(encoding="utf-8")
    return _filled(json.loads(template)[form], facts)


def _filled(item: Any, facts: Mapping[str, Any]) -> Any:
    """The template with every `{fact}` replaced; a text that is one fact alone becomes that fact."""
    if isinstance(item, dict):
        return {key: _filled(inner, facts) for key, inner in item.items()}
    if isinstance(item, list):
        return [_filled(inner, facts) for inner in item]
    if not isinstance(item, str):
        return item
    alone = item[1:-1] if item.startswith("{") else ""
    return facts[alone] if alone in facts else item.format_map(facts)


FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any] | str]] = {
    "text": text,
    "registry": partial(_form, form="registry"),
    "sp800-226": partial(_form, form="sp800-226"),
}


def _headline(statement: Mapping[str, Any]) -> str:
    if not statement["private"]:
        return "NOT PRIVATE: the noise was drawn from a known seed; nobody is protected."
    return f"Differentially private: epsilon {statement['epsilon']:.6g} at delta {statement['delta']:g}."


def _counts(statement: Mapping[str, Any]) -> dict[str, int]:
    """Number of releases per distribution of noise."""
    counts: dict[str, int] = {}
    for part in statement["parts"]:
        for release in part["releases"]:
            if release["law"] == "none":  # post-processing of other releases, listed only for its hash
                continue
            counts[release["law"]] = counts.get(release["law"], 0) + 1
    return counts


def _laws(statement: Mapping[str, Any]) -> str:
    counts = _counts(statement)
    if not counts:
        return "nothing was released"
    return ", ".join(f"{n} releases by the {_MECHANISMS.get(law, law)}" for law, n in counts.items())


def _accounting(statement: Mapping[str, Any]) -> str:
    accountant = statement["accountant"]
    return (
        f"{accountant['name']}, tight at the stated delta, agreed by {accountant['second']} before any draw"
    )


def _mechanism(statement: Mapping[str, Any]) -> str:
    mechanism = statement["mechanism"]
    name = str(mechanism.get("name", "not stated"))
    recipe = mechanism.get("recipe")
    return name if recipe in (None, name) else f"{name}, recipe {recipe}"


def _other_runs(statement: Mapping[str, Any]) -> str:
    ledger = statement["ledger"]
    if ledger["counts_other_runs"]:
        return f"counted by the ledger {ledger['id']} under data set {ledger['dataset']}"
    return "not counted: no ledger was used"


def _tuning(statement: Mapping[str, Any]) -> str:
    chosen = any("clip_choice" in part for part in statement["parts"])
    clip = "chosen in the run and charged" if chosen else "fixed before the run"
    schema = "the schema must come from public knowledge"
    if found := statement["schema"].get("found"):
        schema += f", but for the domains of {', '.join(found['columns'])}, which were found in the run"
    return (
        f"the bound on contributions was {clip}; whatever a mechanism chooses it chooses from its own noisy "
        f"releases, all listed and charged; {schema}"
    )


def _exactness(statement: Mapping[str, Any]) -> str:
    noise = statement["noise"]
    return (
        "counts and sensitivities are exact integers, noise is drawn on an integer grid, and the sampler's "
        f"distance from its law is below 2^{noise['log2_distance_per_draw']} a draw "
        f"({noise['adds_to_delta']:.2g} added to delta in all)"
    )


def _release_lines(part: Mapping[str, Any]) -> list[str]:
    lines = []
    for release in part["releases"]:
        of = ", ".join(release.get("attributes", ())) or release["kind"]
        sigma = f", sigma {release['sigma']:.6g}" if "sigma" in release else ""
        lines.append(f"{release['label']}: {of}, {release['count']:,} answers, {release['law']}{sigma}")
    return lines
