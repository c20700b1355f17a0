"""Combines the rates beside single neighbours into the rate beside all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Combination:
    """Interpolates between two rules: the product of the rates, and one over one plus the sum of their odds.

    The product is right if neighbours act independently, each on what is left. The odds are right if all queue for one
    resource: of three that are always busy each gets a third, where the product gives a quarter.
    """

    odds_part: float = 0.0
    """0: the product. 1: the odds. Between: a geometric mean of both."""
    why: str = ""
    """The reason for this choice."""

    @property
    def name(self) -> str:
        return {0.0: "product", 1.0: "odds"}.get(self.odds_part, f"between ({self.odds_part:.0%} odds)")

    def of(self, rates: Sequence[float]) -> float:
        """The combined rate, never above the lowest. A single rate stays as it is, even if it was measured above 1."""
        if len(rates) == 1:
            return rates[0]
        product, odds = 1.0, 1.0
        for rate in rates:
            if rate <= 0.0:
                return 0.0
            if rate < 1.0:
                product *= rate
                odds += 1.0 / rate - 1.0
        if self.odds_part == 0.0:
            return product
        return product ** (1.0 - self.odds_part) * (1.0 / odds) ** self.odds_part

    def sensitivity(self, rates: Sequence[float], place: int) -> float:
        """The percentage by which the result changes if one rate changes by one percent."""
        if len(rates) == 1:
            return 1.0
        all_odds = 1.0 / (1.0 + sum(1.0 / min(rate, 1.0) - 1.0 for rate in rates))
        return 1.0 - self.odds_part + self.odds_part * all_odds / min(rates[place], 1.0)


PRODUCT, ODDS = Combination(0.0), Combination(1.0)


USUAL = Combination(1.0, "no measured triples")
"""Default if no three were measured together. In 36 sides of 12 triples on an H200 under MPS (bench interference-model)
the product was 19 % too slow on average and the odds 4 % too fast. Time-sliced contexts queue for the card even more.
"""
