"""Registry: policies created from a name and parameters, and refusal of invalid parameters."""

from __future__ import annotations

from math import inf

import pytest

from gpusquad import registry
from gpusquad.model.errors import Invalid


def test_parameters_are_parsed_after_the_name():
    assert registry.create("plan", "easy: backfill=shortest , reservations=2").reservations == 2


@pytest.mark.parametrize(
    ("kind", "spec", "field", "problem"),
    [
        ("divide", "slo:margin=nan", "divide.slo.margin", "'nan' is not a finite number"),
        ("divide", "slo:margin=1e999", "divide.slo.margin", "'1e999' is not a finite number"),
        ("order", "las:quantum_s=-inf", "order.las.quantum_s", "'-inf' is not a finite number"),
        ("plan", "easy:patience_s=nan", "plan.easy.patience_s", "'nan' is not a finite number"),
        ("divide", "slo:margin=2,margin=3", "divide.slo.margin", "is given twice"),
        ("plan", "easy:reservations=2, reservations=2", "plan.easy.reservations", "is given twice"),
        ("divide", "slo:", "divide.slo", "no parameter follows the colon"),
        ("divide", "slo: ,", "divide.slo", "no parameter follows the colon"),
    ],
)
def test_invalid_parameters_are_refused_for_every_kind(kind: str, spec: str, field: str, problem: str):
    with pytest.raises(Invalid) as refused:
        registry.create(kind, spec)
    assert (refused.value.field, refused.value.problem) == (field, problem)
    assert refused.value.cure


@pytest.mark.parametrize(
    ("spec", "current"),
    [
        ("promised", "guaranteed"), ("promised: squad_us=3000", "guaranteed: squad_us=3000"),
        ("guaranteed", "guaranteed"), ("slo : margin=2", "slo : margin=2"), ("nosuch", "nosuch"),
    ],
)  # fmt: skip
def test_current_spec_replaces_a_deprecated_name(spec: str, current: str):
    assert registry.current_spec("divide", spec) == current


def test_infinite_parameter_is_accepted():
    assert registry.create("plan", "easy:patience_s=inf").patience_s == inf
    assert registry.create("order", "sjf:max_wait_s=inf").max_wait_s == inf
