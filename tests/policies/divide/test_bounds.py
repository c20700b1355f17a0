"""Parameters of divide policies out of range are refused with the field and the range."""

from __future__ import annotations

import dataclasses

import pytest

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.modes import load_mode

WITH_SQUAD_US = [name for name in registry.names("divide") if name != "auto"]


@pytest.mark.parametrize(
    ("spec", "field", "cure"),
    [
        ("slo:margin=0", "margin", "use 1 to 10"),
        ("slo:margin=-3", "margin", "use 1 to 10"),
        ("slo:margin=inf", "margin", "use 1 to 10"),
        ("slo:ease_ratio=1.5", "ease_ratio", "use 0 to 1"),
        ("slo:evidence=0", "evidence", "use 1 to 1000000"),
        ("slo:cooling=-1", "cooling", "use 0 to 1000000"),
        ("priority:ratio=0.5", "ratio", "use 1 to 1000"),
        ("auto:hold=-4", "hold", "use 1 to 1000000"),
        ("hybrid:alpha=-5", "alpha", "use 0 to 1"),
        ("hybrid:exact=100", "exact", "use 0 to 6"),
        ("hybrid:sharp=-1", "sharp", "use 0 to 10"),
        ("hybrid:keep=0", "keep", "use 1 to 1000000"),
        ("jct:patience=0", "patience", "use 1 to 1000000"),
        ("jct:most_together=9", "most_together", "use 1 to 4"),
    ],
)
def test_parameter_out_of_range_is_refused(spec: str, field: str, cure: str):
    name, _, value = spec.partition(":")
    with pytest.raises(Invalid) as refused:
        registry.create("divide", spec)
    assert refused.value.field == f"divide.{name}.{field}"
    assert value.split("=")[1] in refused.value.problem
    assert refused.value.cure == cure


@pytest.mark.parametrize("name", WITH_SQUAD_US)
@pytest.mark.parametrize("squad_us", [0, -1, 499, 10_001, 999_999_999])
def test_squad_length_out_of_range_is_refused(name: str, squad_us: int):
    with pytest.raises(Invalid, match=rf"divide\.{name}\.squad_us: {squad_us} .*use 500 to 10000"):
        registry.create("divide", f"{name}:squad_us={squad_us}")


@pytest.mark.parametrize("name", WITH_SQUAD_US)
@pytest.mark.parametrize("squad_us", [500, 10_000])
def test_shortest_and_longest_squad_length_are_accepted(name: str, squad_us: int):
    assert registry.create("divide", f"{name}:squad_us={squad_us}").squad_us == squad_us


@pytest.mark.parametrize("name", registry.names("divide"))
def test_every_numeric_parameter_has_bounds(name: str):
    """A parameter without bounds would accept any value."""
    policy = registry.create("divide", name)
    for parameter in dataclasses.fields(policy):
        for value in (-1e12, 1e12, float("nan")):
            with pytest.raises(Invalid, match=rf"divide\.{name}\.{parameter.name}"):
                dataclasses.replace(policy, **{parameter.name: value})


def test_mode_file_with_a_parameter_out_of_range_is_refused(tmp_path):
    (tmp_path / "night.toml").write_text('version = 1\ndivide = "slo:margin=-3"\n')
    with pytest.raises(Invalid, match=r"mode night\.divide: 'slo:margin=-3': .*margin.*use 1 to 10"):
        load_mode(tmp_path / "night.toml")
