"""Predicts how fast workloads run beside each other on one card."""

from gpusquad.predict.interference.combine import Combination
from gpusquad.predict.interference.effective import EffectiveThroughput, TriplesCheck, check_triples
from gpusquad.predict.interference.online import OnlineCorrections
from gpusquad.predict.interference.table import InterferenceTable
from gpusquad.predict.interference.unseen import RateEstimate, Ratio, Source, UnseenPairs

__all__ = [
    "Combination",
    "EffectiveThroughput",
    "InterferenceTable",
    "OnlineCorrections",
    "RateEstimate",
    "Ratio",
    "Source",
    "TriplesCheck",
    "UnseenPairs",
    "check_triples",
]  # fmt: skip
