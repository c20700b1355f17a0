"""Tests of the sharing parameters that the agent reads from a pod."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.kubernetes.sharing_params import read_sharing_params
from gpusquad.engines.kubernetes.sharing_annotator import binding_annotations
from gpusquad.kube.names import DEADLINE, ESTIMATE, KNOWN, PRIORITY, SLO, WEIGHT
from gpusquad.model.job import Slo
from gpusquad.model.known_rates import known_text
from gpusquad.model.sharing_params import SharingParams


def params_of(pod: Pod) -> SharingParams:
    return read_sharing_params(pod)[0]


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [(-5, "", -1), (0, "", 0), (1, "", 1), (999_999, "", 1), (1_000_000, "", 2), (-5, "urgent", 2),
     (2_000_000, "low", -1), (7, "no such word", 1), (7, "-3", -1), (0, "1000000", 2), (0, "99999999999", 0)],
)  # fmt: skip
def test_priority_annotation_takes_precedence_over_the_priority_class(number: int, text: str, expected: int):
    sharing_params = params_of(Pod("n", "p", "u", annotations={PRIORITY: text}, priority=number))
    assert sharing_params == SharingParams(priority=expected)


@pytest.mark.parametrize(("text", "expected"), [("2h", 7_200_000_000), ("90s", 90_000_000), ("0s", None), ("x", None)])
def test_remaining_time_at_start_is_the_estimate(text: str, expected: int | None):
    assert params_of(Pod("n", "p", "u", annotations={ESTIMATE: text})).remaining_us == expected


def test_known_rates_are_read_from_the_pod():
    known = SharingParams(app="vgg16", curve=((500, 0.6), (1000, 1.0)), solo_per_s=12.5, rate_beside={"cnn": 0.5},
                     neighbour_rates={"cnn": 0.7})  # fmt: skip
    assert params_of(Pod("n", "p", "u", annotations={KNOWN: known_text(known)})) == known
    assert known_text(SharingParams(weight=2.0)) == ""
    assert known_text(replace(known, rate_beside={f"{n}" * 60: 0.5 for n in range(1000)})) == ""


@pytest.mark.parametrize("text", [
    "{", "[]", "{}", '{"app": 7}', '{"app": "a", "curve": [[0, 1]]}', '{"app": "a", "beside": {"b": -1}}',
    '{"app": "a", "costs": [1]}', '{"app": "' + "a" * 70_000 + '"}', "[" * 60_000,
    '{"app": "a", "beside": {"b": 1' + "0" * 400 + "}}", '{"app": "a", "curve": [[1' + "0" * 400 + ", 1]]}",
    '{"app": "' + "a" * 300 + '"}', '{"app": "a", "solo_per_s": -1}', '{"app": "a", "solo_per_s": "fast"}',
    '{"app": "a\\nb"}', '{"app": "a", "costs": {"": 0.0}}',
])  # fmt: skip
def test_invalid_known_rates_are_ignored(text: str):
    assert params_of(Pod("n", "p", "u", annotations={KNOWN: text})) == SharingParams()


apps = st.text("abc", min_size=1, max_size=3)
speeds = st.integers(0, 10_000).map(lambda milli: milli / 1000)
knowledge = st.builds(
    lambda app, curve, solo_per_s, beside, costs: SharingParams(
        app=app, curve=tuple(sorted(curve.items())), solo_per_s=solo_per_s, rate_beside=beside, neighbour_rates=costs
    ),
    apps, st.dictionaries(st.integers(1, 1000), speeds, max_size=3), st.floats(0, 1e6), st.dictionaries(apps, speeds),
    st.dictionaries(apps, speeds),
)  # fmt: skip


@given(
    st.floats(0, 1e6, exclude_min=True), st.none() | st.integers(0, 2**53), st.just(SharingParams()) | knowledge,
    st.dictionaries(st.sampled_from([KNOWN, WEIGHT, DEADLINE]), st.sampled_from(["7", "1999-12-31", '{"app":"z"}'])),
)  # fmt: skip
def test_agent_reads_the_params_that_the_scheduler_wrote(
    weight: float, deadline_us: int | None, known: SharingParams, user_annotations: dict[str, str]
):
    """The scheduler's values replace those that the pod's user wrote."""
    slo = None if deadline_us is None else Slo(deadline_us)
    sharing_params = replace(known, weight=weight, slo=slo)
    annotations = user_annotations | binding_annotations(
        {"metadata": {"annotations": user_annotations}}, sharing_params
    )
    assert read_sharing_params(Pod("n", "p", "u", annotations=annotations)) == (sharing_params, ())


def test_slo_weight_and_deadline_are_read_from_the_pod():
    annotations = {
        SLO: "p99=20ms,throughput=5,deadline=2h",
        WEIGHT: "2.5",
        DEADLINE: "1970-01-01T00:00:03.000001+00:00",
    }
    sharing_params, problems = read_sharing_params(Pod("n", "p", "u", annotations=annotations))
    assert sharing_params == SharingParams(weight=2.5, slo=Slo(3_000_001, 20_000, 5.0))
    assert problems == ()


def test_relative_deadline_is_ignored_and_an_absolute_one_is_used():
    assert params_of(Pod("n", "p", "u", annotations={SLO: "deadline=2h"})) == SharingParams()
    assert params_of(Pod("n", "p", "u", annotations={DEADLINE: "1970-01-01T00:00:01"})).slo == Slo(1_000_000)


@pytest.mark.parametrize(("name", "text"), [
    (SLO, "fast"), (SLO, "p99=20 parsecs"), (SLO, "throughput=0"), (SLO, "p99=1s," * 100), (SLO, "p99=" + "9" * 40),
    (WEIGHT, "heavy"), (WEIGHT, "0"), (WEIGHT, "-1"), (WEIGHT, "nan"), (WEIGHT, "inf"), (WEIGHT, "1e7"),
    (DEADLINE, "soon"), (DEADLINE, "9999-12-31T23:59:59"), (DEADLINE, "1969-12-31T23:59:59Z"), (ESTIMATE, "long"),
])  # fmt: skip
def test_invalid_annotation_is_reported_and_ignored(name: str, text: str):
    sharing_params, [problem] = read_sharing_params(Pod("n", "p", "u", annotations={name: text}))
    assert sharing_params == SharingParams()
    assert problem.startswith(name)
    assert len(problem) < 400


user_texts = st.text() | st.sampled_from(["0001-01-01T00:00+23:59", "p99=1e308s", "availability=nan%", "1_0", "٣"])


@given(
    st.dictionaries(st.sampled_from([PRIORITY, ESTIMATE, KNOWN, SLO, WEIGHT, DEADLINE]), user_texts),
    st.integers(-(2**31), 2**31 - 1),
)
def test_arbitrary_annotations_are_handled(annotations: dict[str, str], number: int):
    assert params_of(Pod("n", "p", "u", annotations=annotations, priority=number)).priority in range(-1, 3)
