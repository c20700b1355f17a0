"""Prediction of the slowdown of pairs that were never measured, compared with two baselines and a random forest.

Both directions of one co-run are one measurement and are held out together. The baselines use the same training data:
no interference (ratio 1), and a linear least-squares fit over the features of both workloads (utilisation, bandwidth
and memory; on Gavel's data, solo throughput, batch size and family). The random forest uses the same features and needs
scikit-learn; without it that column is left out.

Lucid: five folds of pairs, and all pairs of one model left out at a time. Gavel: five folds. Own tables: one pair left
out at a time, the case of a scheduler that knows all other pairs; and, without a bar, one workload left out at a time,
the case of a new workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from bench._pages import keep
from bench._pairs_data import PairsData, gavel, lucid, measured_tables, of_measured
from bench._play import tell
from bench.claims import claim
from gpusquad.model.interference import MeasurementSeries
from gpusquad.predict.interference.effective import EffectiveThroughput, Errors, errors
from gpusquad.predict.interference.features import Traits
from gpusquad.predict.interference.unseen import UnseenPairs

NAME = "interference-model"
SUMMARY = "predicted slowdown of pairs never measured together: Lucid's and Gavel's pairs, and own tables"

FOLDS = 5
MEDIAN_BAR, P90_BAR = 0.05, 0.15
"""On held-out pairs of gpusquad's own tables."""
Predict = Callable[[PairsData, Sequence[int], Sequence[int]], list[float]]
"""(data, indices to learn from, indices to predict) -> ratios."""


@dataclass(frozen=True)
class Scored:
    """Result of one prediction method on one data set."""

    data: str
    way: str
    errors: Errors


def run() -> list[dict]:
    scored = [*_lucid(), *_gavel()]
    claims = _public_claims(scored)
    tables = measured_tables()
    if not tables:
        tell("own tables: none in bench/measured, left out")
    for table in tables:
        own, found = _own(table)
        scored += found
        claims += own
    keep(NAME, [asdict(one) for one in scored])
    return claims


def score(data: PairsData, folds: Iterable[tuple[Sequence[int], Sequence[int]]], label: str,
          ways: dict[str, Predict]) -> list[Scored]:  # fmt: skip
    predicted: dict[str, list[float]] = {way: [] for way in ways}
    actual: list[float] = []
    for train, test in folds:
        actual += [data.ratios[at].ratio for at in test]
        for way, predict in ways.items():
            predicted[way] += predict(data, train, test)
    found = []
    for way, values in predicted.items():
        figures = errors(values, actual)
        assert figures is not None
        found.append(Scored(f"{data.name}, {label}", way, figures))
        tell(f"{data.name}, {label}, {way}: median {figures.median:.2%}, p90 {figures.p90:.2%}, "
             f"mean {figures.mean:.2%}, bias {figures.bias:+.2%} of {figures.count}")  # fmt: skip
    return found


def by_pair(data: PairsData, folds: int = 0) -> list[tuple[list[int], list[int]]]:
    """0: leave one pair out at a time."""
    count = max(data.groups) + 1
    fold_of = np.arange(count) if not folds else np.random.default_rng(1).permutation(count) % folds
    return [_parts(data, lambda at, fold=fold: fold_of[data.groups[at]] == fold) for fold in range(folds or count)]


def by_model(data: PairsData) -> list[tuple[list[int], list[int]]]:
    """Leave all pairs of one model out at a time. Pairs of two models occur twice."""
    sides = [{data.models[one.own], data.models[one.other]} for one in data.ratios]
    return [_parts(data, lambda at, model=model: model in sides[at]) for model in sorted(set().union(*sides))]


def our_model(data: PairsData, train: Sequence[int], test: Sequence[int]) -> list[float]:
    model = UnseenPairs([data.ratios[at] for at in train], data.traits)
    return [one.rate for one in model.estimates([(data.ratios[at].own, data.ratios[at].other) for at in test])]


def nobody_slowed(data: PairsData, train: Sequence[int], test: Sequence[int]) -> list[float]:
    return [1.0] * len(test)


def linear(data: PairsData, train: Sequence[int], test: Sequence[int]) -> list[float]:
    learnt = _rows(data, train)
    weights = np.linalg.lstsq(learnt, np.array([data.ratios[at].ratio for at in train]), rcond=None)[0]
    return [float(max(one, 0.01)) for one in _rows(data, test) @ weights]


def forest(data: PairsData, train: Sequence[int], test: Sequence[int]) -> list[float]:
    from sklearn.ensemble import RandomForestRegressor

    trees = RandomForestRegressor(100, random_state=0)
    trees.fit(_rows(data, train), [data.ratios[at].ratio for at in train])
    return list(map(float, trees.predict(_rows(data, test))))


def ways() -> dict[str, Predict]:
    found: dict[str, Predict] = {"ours": our_model, "ratio 1": nobody_slowed, "linear": linear}
    try:
        import sklearn  # noqa: F401
    except ImportError:
        tell("no forest: pip install 'gpusquad[predict]'")
        return found
    return {**found, "forest": forest}


def _lucid() -> list[Scored]:
    data = lucid()
    return [
        *score(data, by_pair(data, FOLDS), f"{FOLDS} folds of pairs", ways()),
        *score(data, by_model(data), "one model left out", ways()),
    ]


def _gavel() -> list[Scored]:
    found = []
    for gpu in ("v100", "p100", "k80"):
        data = gavel(gpu)
        found += score(data, by_pair(data, FOLDS), f"{FOLDS} folds of pairs", ways())
        bare = replace(data, name=f"{data.name}, no features", traits={name: Traits() for name in data.traits})
        found += score(bare, by_pair(bare, FOLDS), f"{FOLDS} folds of pairs", {"ours": our_model})
    return found


def _own(table: MeasurementSeries) -> tuple[list[dict], list[Scored]]:
    data = of_measured(table)
    scored = score(data, by_pair(data), "one pair left out", ways()) if len(set(data.groups)) > 2 else []
    claims = []
    for one in scored:
        if one.way == "ours":
            linear_too = next(other.errors for other in scored if other.way == "linear")
            claims.append(claim(f"{one.data}: median error", one.errors.median, "", "lower", bar=MEDIAN_BAR,
                                baseline=linear_too.median))  # fmt: skip
            claims.append(claim(f"{one.data}: p90 error", one.errors.p90, "", "lower", bar=P90_BAR,
                                baseline=linear_too.p90))  # fmt: skip
    new = score(data, by_model(data), "one workload left out", ways()) if scored else []
    for one in new:
        if one.way == "ours":
            linear_too = next(other.errors for other in new if other.way == "linear")
            claims.append(claim(f"{one.data}: median error", one.errors.median, "", "lower",
                                baseline=linear_too.median))  # fmt: skip
    return claims + _effective_claims(table, data.name), scored + new


def _effective_claims(table: MeasurementSeries, name: str) -> list[dict]:
    """Claims without a bar: triples predicted by the chosen method and by the product, and held-out splits of pairs."""
    fitted, claims = EffectiveThroughput(table), []
    tell(f"{name}: {fitted.triples.words()} ({fitted.combination.why}); {fitted.phi}")
    checked = fitted.triples
    if checked.product is not None and checked.odds is not None:
        part = fitted.combination.odds_part
        taken = checked.product if part == 0 else checked.odds if part == 1 else checked.between or checked.odds
        claims.append(claim(f"{name}, {len(checked.triples)} sides of triples from pairs: median error", taken.median,
                            "", "lower", baseline=checked.product.median))  # fmt: skip
        claims.append(claim(f"{name}, triples: p90 error", taken.p90, "", "lower", baseline=checked.product.p90))
    if (splits := _split_errors(table)) is not None:
        claims.append(claim(f"{name}, {splits.count} sides of SM splits, pair left out of phi: median error",
                            splits.median, "", "lower"))  # fmt: skip
        claims.append(claim(f"{name}, SM splits: p90 error", splits.p90, "", "lower"))
    return claims


def _split_errors(table: MeasurementSeries) -> Errors | None:
    """Each pair's splits from a phi that never saw them (its unrestricted run is known)."""
    predicted, actual = [], []
    sides = EffectiveThroughput(table).splits
    for pair in sorted({tuple(sorted((one.own, one.other))) for one in sides}):
        left = tuple(run for run in table.co_runs if run.is_unrestricted or tuple(sorted(run.workloads)) != pair)
        fitted = EffectiveThroughput(replace(table, co_runs=left))
        for one in sides:
            if tuple(sorted((one.own, one.other))) == pair:
                predicted.append(fitted.rate(one.own, one.own_sm, [(one.other, one.other_sm)]))
                actual.append(one.ratio)
    return errors(predicted, actual)


def _public_claims(scored: Sequence[Scored]) -> list[dict]:
    """The bar is the better of the two baselines."""
    claims = []
    for data in dict.fromkeys(one.data for one in scored):
        found = {one.way: one.errors for one in scored if one.data == data}
        if "linear" not in found:
            claims.append(claim(f"{data}: mean error", found["ours"].mean, "", "lower"))
            continue
        for figure in ("median", "mean", "p90"):
            bar = min(getattr(found[way], figure) for way in ("ratio 1", "linear"))
            baseline = getattr(found["forest"], figure) if "forest" in found else None
            claims.append(claim(f"{data}: {figure} error", getattr(found["ours"], figure), "", "lower", bar=bar,
                                baseline=baseline))  # fmt: skip
    return claims


def _parts(data: PairsData, is_test: Callable[[int], bool]) -> tuple[list[int], list[int]]:
    test = [at for at in range(len(data.ratios)) if is_test(at)]
    left = set(test)
    return [at for at in range(len(data.ratios)) if at not in left], test


def _rows(data: PairsData, places: Sequence[int]) -> np.ndarray:
    """Feature matrix: a constant and the features of both workloads, with one column per family."""
    names = sorted({name for traits in data.traits.values() for name in traits.values})
    families = sorted({traits.family for traits in data.traits.values() if traits.family})

    def side(workload: str) -> list[float]:
        traits = data.traits.get(workload, Traits())
        return [*(traits.values.get(name, 0.0) for name in names), *(float(traits.family == one) for one in families)]

    return np.array([[1.0, *side(data.ratios[at].own), *side(data.ratios[at].other)] for at in places])
