"""Archetypes: how fast they are fitted, assigned and sampled, and how they score on years that
drifted apart.

    python -m bench.archetypes speed             1M public trips fitted, 10M private assigned, 2M rows drawn
    python -m bench.archetypes scores --seeds 5  deid2 at equal epsilon: plain, adagrid, refined; mean and
                                                 95 % interval
    python -m bench.archetypes number            evidence for the number of archetypes

Private trips are of 2020, public ones of an earlier year. Each seed has trips of its own on both
sides and its own noise. Beside the mechanisms stand three tables that cost no budget: the public
trips themselves, the public distribution that refining starts from, and other trips of the private
year (what sampling alone costs; no mechanism has them).
"""

from __future__ import annotations

import argparse
import time

import msgspec
import numpy as np

import fastdp
from fastdp.engines.user_histograms import histogram
from fastdp.mechanisms import recipe as recipes
from fastdp.mechanisms.archetypes.archetype_users import CastRows, DealtRows, cast
from fastdp.mechanisms.archetypes.fit import fit
from fastdp.mechanisms.archetypes.prior import prior_model
from fastdp.mechanisms.base import Outcome
from fastdp.mechanisms.shared.model_rows import ModelRows
from fastdp.public.data import PublicTable
from fastdp.run.output import Output
from fastdp.userkeys import MostCommon

from .. import machine

KEYS = ("overall", "k_marginal_score", "pickup_dropoff_score", "higher_order_conjunction")
DELTA = 2.5e-5
# Two-sided 95 % points of Student's t by degrees of freedom.
STUDENT = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
}


def timed(call, times: int = 1) -> tuple[float, object]:
    """(seconds of the fastest of `times` calls, its result)."""
    best = np.inf
    result = None
    for _ in range(times):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def plain_options(**more):
    return msgspec.structs.replace(recipes.load("taxi-archetypes").config(1.0).options(), **more)


def speed(public_rows: int, private_rows: int, draw_rows: int, peer_rows: int) -> dict:
    schema = fastdp.Schema.load("taxi-deid2")
    public = fastdp.read(fastdp.simulate.taxi(public_rows, seed=2, year=2019), schema, public=True)
    fitted, model = timed(lambda: fit(PublicTable(public), plain_options()))
    print(f"fit on {public_rows:,} public trips: {fitted:.1f} s", flush=True)

    figures = {"fit_seconds": fitted}
    private = fastdp.read(fastdp.simulate.taxi(private_rows, seed=1, year=2020), schema)
    key = MostCommon(model.options.features, labels=model.labels, keys=model.size)
    ours, _ = timed(lambda: histogram(private, key, 1, 2), 3)
    print(f"assign {private_rows:,} private trips: {ours:.2f} s", flush=True)
    small = fastdp.read(fastdp.simulate.taxi(peer_rows, seed=3, year=2020), schema)
    peer = peer_assign(model, small)
    ratio = (peer / peer_rows) / (ours / private_rows)
    print(
        f"scikit-learn's predict and a pandas mode, {peer_rows:,} trips: {peer:.1f} s; {ratio:.0f}x"
        " ours per trip"
    )
    figures |= {
        "assign_seconds": ours,
        "assign_rows": private_rows,
        "peer_seconds": peer,
        "peer_rows": peer_rows,
    }
    figures["assign_ratio"] = ratio

    people = cast(model, model.users * 1e3, draw_rows, 200, False, 1)
    rows = CastRows(model, people, 1)
    drawn, _ = timed(lambda: [rows.shard(i) for i in range(-(-rows.total // rows.shard_rows))], 2)
    print(f"draw {rows.total:,} rows of all columns, one thread: {drawn:.2f} s", flush=True)
    figures |= {"draw_seconds": drawn, "draw_rows": rows.total}
    whole, run = timed(
        lambda: (
            fastdp.synthesize(
                private,
                "taxi-archetypes",
                1.0,
                DELTA,
                public=public,
                rows=draw_rows,
                seed=1,
                sample_seed=1,
            ).data
        )
    )
    print(f"fit, measure, draw and decode {run.num_rows:,} rows: {whole:.1f} s")
    return figures | {"whole_seconds": whole}


def peer_assign(model, table) -> float:
    """Seconds of predicting every row with scikit-learn and taking each user's mode with pandas (as
    published)."""
    import pandas as pd
    from sklearn.mixture import GaussianMixture

    m = model.mixture
    peer = GaussianMixture(m.size)
    peer.weights_ = m.weights
    peer.means_ = m.means
    peer.covariances_ = m.covariances
    peer.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(m.covariances))
    codes = np.stack([table.codes[c] for c in model.options.features], axis=1)
    frame = pd.DataFrame({"user": table.user})

    def assign():
        frame["label"] = peer.predict(m.standardised(codes))
        return (
            frame.groupby("user")["label"].agg(lambda x: x.value_counts().index[0]).value_counts()
        )

    return timed(assign)[0]


def unrefined(schema, public, rows: int, seed: int):
    """Rows of the public distribution dealt to public users: what refining makes of no private
    answers."""
    import pyarrow as pa

    model = fit(PublicTable(public), plain_options())
    prior = prior_model(schema.domain, model.prior, total=float(rows))
    dealt = DealtRows(ModelRows(prior, rows, seed), model, model.users.astype(float), 200, seed)
    return pa.concat_tables(
        Output(schema, Outcome(dealt, owners=dealt.owners), None, seed).tables()
    )


def scores(rows: int, public_rows: int, year: int, epsilons: list[float], seeds: int) -> dict:
    schema = fastdp.Schema.load("taxi-deid2")
    got: dict[str, list[list[float]]] = {}

    def keep(name: str, truth, made) -> None:
        deid2 = fastdp.evaluate(truth, made, schema=schema, metrics=["deid2"], baselines=())[
            "deid2"
        ]
        got.setdefault(name, []).append([deid2[k] for k in KEYS])
        print(f"  {name:<34} " + " ".join(f"{x:.4f}" for x in got[name][-1]), flush=True)

    for seed in range(seeds):
        truth = fastdp.simulate.taxi(rows, seed=1000 + seed, year=2020)
        public_trips = fastdp.simulate.taxi(public_rows, seed=2000 + seed, year=year)
        private = fastdp.read(truth, schema)
        public = fastdp.read(public_trips, schema, public=True)
        print(f"seed {seed}", flush=True)
        keep("the public trips themselves", truth, public_trips)
        keep(
            "other trips of the private year",
            truth,
            fastdp.simulate.taxi(rows, seed=3000 + seed, year=2020),
        )
        keep("the public distribution, unrefined", truth, unrefined(schema, public, rows, seed))
        for epsilon in epsilons:
            for name in ("taxi-archetypes", "taxi-adagrid", "taxi-archetypes-refined"):
                run = fastdp.synthesize(
                    private,
                    name,
                    epsilon,
                    DELTA,
                    public=public,
                    rows=rows,
                    seed=seed,
                    sample_seed=seed,
                )
                keep(f"{name}, epsilon {epsilon:g}", truth, run.data)
    return {
        "keys": KEYS,
        "seeds": seeds,
        "year": year,
        "public_rows": public_rows,
        **summary(got, epsilons),
    }


def summary(got: dict[str, list[list[float]]], epsilons: list[float]) -> dict:
    """Mean and half width of the 95 % interval of each, and of the differences to the refined runs
    (paired by seed)."""

    def interval(values) -> tuple[np.ndarray, np.ndarray]:
        a = np.asarray(values)
        n = a.shape[0]
        if n < 2:
            return a.mean(axis=0), np.full(a.shape[1], np.nan)
        return a.mean(axis=0), STUDENT.get(n - 1, 1.96) * a.std(axis=0, ddof=1) / np.sqrt(n)

    out: dict[str, dict] = {"scores": {}, "refined_minus": {}}
    print(f"\n{'':<36}" + "  ".join(f"{k:>24}" for k in KEYS))
    for name, values in got.items():
        mean, half = interval(values)
        out["scores"][name] = {k: [float(m), float(h)] for k, m, h in zip(KEYS, mean, half)}
        print(f"{name:<36}" + "  ".join(f"{m:>14.4f} +- {h:.4f}" for m, h in zip(mean, half)))
    for epsilon in epsilons:
        refined = np.array(got[f"taxi-archetypes-refined, epsilon {epsilon:g}"])
        for name in (
            f"taxi-archetypes, epsilon {epsilon:g}",
            f"taxi-adagrid, epsilon {epsilon:g}",
            "the public trips themselves",
            "the public distribution, unrefined",
        ):
            mean, half = interval(refined - np.array(got[name]))
            label = f"epsilon {epsilon:g}: refined minus {name.split(',')[0]}"
            out["refined_minus"][label] = [float(mean[0]), float(half[0])]
            print(f"{label:<64} overall {mean[0]:+.1f} +- {half[0]:.1f}")
    return out


def number(rows: int) -> dict:
    schema = fastdp.Schema.load("taxi-deid2")
    public = fastdp.read(fastdp.simulate.taxi(rows, seed=2, year=2019), schema, public=True)
    seconds, model = timed(lambda: fit(PublicTable(public), plain_options(archetypes="auto")))
    for e in model.evidence:
        print(
            f"{e['archetypes']:>3} archetypes: {e['log_likelihood']:.4f} (gap's error "
            f"{e['error_of_gap_to_best']:.4f})"
        )
    print(f"chosen: {model.size}, in {seconds:.1f} s on {rows:,} trips")
    return {"evidence": list(model.evidence), "chosen": model.size, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", default="speed", choices=("speed", "scores", "number"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--public-rows", type=int, default=None)
    parser.add_argument("--year", type=int, default=2017, help="year of the public trips")
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    if options.what == "speed":
        figures = speed(
            options.public_rows or 1_000_000, options.rows or 10_000_000, 2_000_000, 500_000
        )
    elif options.what == "number":
        figures = number(options.rows or 300_000)
    else:
        rows = options.rows or 1_000_000
        epsilons = [float(e) for e in options.epsilons.split(",")]
        figures = {"rows": rows} | scores(
            rows, options.public_rows or rows, options.year, epsilons, options.seeds
        )
    if not options.no_save:
        machine.keep(f"archetypes-{options.what}", {"found": figures})


if __name__ == "__main__":
    main()
