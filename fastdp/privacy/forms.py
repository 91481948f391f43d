"""A statement in other forms: sentences, an entry of the Differential Privacy Deployments Registry, and
answers to the questions of NIST SP 800-226.

They are pure functions of `privacy.json` and promise exactly what it promises. What a statement does not hold
(who publishes, what for, who may see the raw data) is `OWNER` or an open question, for a person to fill in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        raise UsageError(f"--as must be one of {', '.join(FORMS)}, got {form!r}")
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


def registry(statement: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the Differential Privacy Deployments Registry (its field names; JSON is YAML)."""
    if not statement["private"]:
        raise UsageError("the noise of this run was drawn from a known seed: it is no deployment to register")
    pure = statement["delta"] == 0
    parameters = {"epsilon": statement["epsilon"]} | ({} if pure else {"delta": statement["delta"]})
    return {
        "url_slug": OWNER,
        "deployment": {
            "basic": {
                "name": OWNER,
                "data_curators": [{"data_curator_name": OWNER, "data_curator_type": OWNER}],
                "description": f"Synthetic rows made by fastdp; {_mechanism(statement)}.",
                "intended_use": OWNER,
                "data_product_type": "Synthetic data",
                "data_product_region": OWNER,
                "data_product_sector": OWNER,
                "publication_date": OWNER,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Approximate DP",
                "data_domain": f"tables that the schema {statement['schema']['name']} describes "
                f"(sha256 {statement['schema']['sha256']}; from: {statement['schema']['provenance']})",
                "unprotected_quantities": "; ".join(statement["not_protected"]),
            },
            "privacy_loss": {
                "privacy_unit": _LEVELS[statement["unit"]["kind"]],
                "privacy_unit_details": f"{statement['unit']['adjacency']}; {statement['bound']['how']}",
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"{_accounting(statement)}; mu {statement['mu']:.9g} in the "
                "sense of Gaussian differential privacy",
            },
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release",
                "release_type_details": _other_runs(statement),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _tuning(statement),
                "mechanisms": f"{_laws(statement)}. {_exactness(statement)}. "
                f"fastdp {statement['versions']['fastdp']}, build {statement['versions']['build']}.",
                "justification": OWNER,
            },
            "administrative": {"status": "Draft", "registry_authors": [OWNER], "tier": 3},
        },
    }


def sp800_226(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Answers to what NIST SP 800-226 asks of a promise, level by level of its pyramid.

    Each item has an `answer` taken from the statement, or a `question` where only the publisher can answer.
    """
    return {
        "publication": "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees",
        "guarantee": {
            "privacy parameters": {
                "answer": f"epsilon {statement['epsilon']:.9g}, delta {statement['delta']:g}",
                "variant": "pure" if statement["delta"] == 0 else "approximate",
                "strength": [n for n in statement["notes"] if n.startswith(("epsilon ", "delta "))]
                or "epsilon and delta are within the range that fastdp does not warn about",
            },
            "unit of privacy": {
                "answer": statement["unit"]["adjacency"],
                "neighbours": "unbounded (add or remove)",
                "bound on contributions": statement["bound"]["how"],
            },
        },
        "algorithms": {
            "mechanisms": {"answer": _laws(statement), "releases": sum(_counts(statement).values())},
            "composition": {"answer": _accounting(statement)},
            "other releases of the same data": {"answer": _other_runs(statement)},
            "choices made by looking at data": {"answer": _tuning(statement)},
            "invariants": {"answer": "none: no exact number of the private data is released"},
            "correctness": {
                "answer": "recompute it: fastdp verify DIR, with --ledger against what was drawn"
            },
        },
        "utility and bias": {
            "sampling error of the noise": {
                "answer": "measurements.parquet has the standard error of every released number"
            },
            "systematic error": {
                "answer": "rows beyond the bound on contributions weigh less, values outside the schema are "
                "one class, and negative counts are removed by the fit: small groups may be moved"
            },
            "human and systemic bias": {
                "question": "whom does the data leave out, and who checks small groups?"
            },
        },
        "implementation": {
            "trust model": {"answer": "central: the machine of the run sees the raw data"},
            "floating point": {"answer": _exactness(statement)},
            "randomness": {"answer": statement["noise"]["source"]},
            "side channels": {
                "answer": "duration and memory are not protected; the run is not interactive, so that "
                "outsiders choose no query"
            },
        },
        "surroundings": {
            "data security and access control": {
                "question": "who may read the raw data, the ledger and DIR.private, and until when?"
            },
            "data collection exposure": {
                "question": "what happens to the data before the run, where this promise does not reach?"
            },
        },
        "not protected": list(statement["not_protected"]),
        "notes": list(statement["notes"]),
    }


FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any] | str]] = {
    "text": text,
    "registry": registry,
    "sp800-226": sp800_226,
}


def _headline(statement: Mapping[str, Any]) -> str:
    if not statement["private"]:
        return "NOT PRIVATE: the noise was drawn from a known seed; nobody is protected."
    return f"Differentially private: epsilon {statement['epsilon']:.6g} at delta {statement['delta']:g}."


def _counts(statement: Mapping[str, Any]) -> dict[str, int]:
    """Releases by law."""
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
