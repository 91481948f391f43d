"""A statement in other forms: sentences, an entry of the Differential Privacy Deployments Registry,
and answers to the questions of NIST SP 800-226.

They are pure functions of `privacy.json` and promise exactly what it promises. A statement does not
say who publishes, what for, or who may see the raw data. Such fields are `OWNER` or an open
question, for a person to fill in.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError

OWNER = "to be filled in by the publisher"

_LEVELS = {
    "user": "User-level",
    "row": "Record-level",
    "event": "Event-level",
    "user-period": "User-period-level",
}
_MECHANISMS = {
    "gaussian": "rounded Gaussian mechanism",
    "discrete-laplace": "discrete Laplace mechanism",
    "exponential": "exponential mechanism",
    "threshold": "rounded Gaussian mechanism with a threshold",
}


TEMPLATES = json.loads(Path(__file__).with_name("forms.json").read_text(encoding="utf-8"))
FORMS = ("text", "registry", "sp800-226")


def as_form(statement: Mapping[str, Any], form: str) -> dict[str, Any] | str:
    """The statement as `text` (a page for people), `registry` or `sp800-226` (plain data): the form
    of `forms.json`, filled in. Each item of `sp800-226` has an `answer` taken from the statement,
    or a `question` where only the publisher can answer."""
    if form not in FORMS:
        raise UsageError(f"form= must be one of {', '.join(FORMS)}, got {form!r}")
    if form == "registry" and not statement["private"]:
        raise UsageError(
            "the noise of this run came from a known seed, so the run is not a deployment "
            "to register; run it without seed="
        )
    facts = _facts(statement)
    facts |= {name: template.format_map(facts) for name, template in TEMPLATES["facts"].items()}
    filled = _filled(TEMPLATES[form], facts)
    return "\n".join([*filled, *_lists(statement)]) if form == "text" else filled


def _facts(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What a form may name: the statement's own fields, and these."""
    counts = _releases_by_law(statement)
    mechanism = statement["mechanism"]
    ledger = statement["ledger"]
    name = str(mechanism.get("name", "not stated"))
    recipe = mechanism.get("recipe")
    laws = [f"{n} releases by the {_MECHANISMS.get(law, law)}" for law, n in counts.items()]
    headline = (
        f"Differentially private: epsilon {statement['epsilon']:.6g} at delta"
        f" {statement['delta']:g}."
    )
    if not statement["private"]:
        headline = "NOT PRIVATE: the noise was drawn from a known seed; nobody is protected."
    others = "not counted: no ledger was used"
    if ledger["counts_other_runs"]:
        others = f"counted by the ledger {ledger['id']} under data set {ledger['dataset']}"
    chosen = any("clip_choice" in part for part in statement["parts"])
    schema = "the schema must come from public knowledge"
    if found := statement["schema"].get("found"):
        schema += (
            f", but for the domains of {', '.join(found['columns'])}, which were found in the run"
        )
    pure = statement["delta"] == 0
    said = [n for n in statement["notes"] if n.startswith(("epsilon ", "delta "))]
    return {
        **statement,
        "owner": OWNER,
        "headline": headline,
        "variant": "pure" if pure else "approximate",
        "Variant": "Pure" if pure else "Approximate",
        "level": _LEVELS[statement["unit"]["kind"]],
        "unprotected": "; ".join(statement["not_protected"]),
        "parameters": {k: statement[k] for k in (("epsilon",) if pure else ("epsilon", "delta"))},
        "strength": (
            said or "epsilon and delta are within the range that fastdp does not warn about"
        ),
        "releases": sum(counts.values()),
        "mechanism": name if recipe in (None, name) else f"{name}, recipe {recipe}",
        "other_runs": others,
        "clip": "chosen in the run and charged" if chosen else "fixed before the run",
        "schema_from": schema,
        "laws": ", ".join(laws) or "nothing was released",
    }


def _filled(item: Any, facts: Mapping[str, Any]) -> Any:
    """The template with every `{fact}` replaced; a text that is one fact alone becomes that
    fact."""
    if isinstance(item, dict):
        return {key: _filled(inner, facts) for key, inner in item.items()}
    if isinstance(item, list):
        return [_filled(inner, facts) for inner in item]
    if not isinstance(item, str):
        return item
    alone = item[1:-1] if item.startswith("{") else ""
    return facts[alone] if alone in facts else item.format_map(facts)


def _releases_by_law(statement: Mapping[str, Any]) -> Counter[str]:
    """Number of releases per distribution of noise; what is computed from other releases has
    none."""
    return Counter(
        r["law"] for p in statement["parts"] for r in p["releases"] if r["law"] != "none"
    )


def _lists(statement: Mapping[str, Any]) -> Iterator[str]:
    """The lists at the end of the page for people."""
    if statement["public_data"]:
        names = ", ".join(f"{p['name']} ({p['use']})" for p in statement["public_data"])
        yield f"Public data used: {names}."
    yield from ("", "Releases, in the order they were made:")
    for release in (release for part in statement["parts"] for release in part["releases"]):
        of = ", ".join(release.get("attributes", ())) or release["kind"]
        sigma = f", sigma {release['sigma']:.6g}" if "sigma" in release else ""
        yield f"  {release['label']}: {of}, {release['count']:,} answers, {release['law']}{sigma}"
    for title, items in (
        ("Not protected", statement["not_protected"]),
        ("Notes", statement["notes"]),
    ):
        if items:
            yield from ("", f"{title}:", *(f"  - {item}" for item in items))
