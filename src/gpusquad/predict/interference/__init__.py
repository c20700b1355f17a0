"""How fast workloads run beside each other on one card."""

from gpusquad.predict.interference.combine import Combination
from gpusquad.predict.interference.effective import Effective, TriplesCheck, check_triples
from gpusquad.predict.interference.online import Online
from gpusquad.predict.interference.table import Interference
from gpusquad.predict.interference.unseen import Estimate, Ratio, Source, Unseen

__all__ = [
    "Combination", "Effective", "Estimate", "Interference", "Online", "Ratio", "Source", "TriplesCheck", "Unseen",
    "check_triples",
]  # fmt: skip
