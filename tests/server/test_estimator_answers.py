"""Answers of estimators."""

from __future__ import annotations

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.server.services.jobs.estimator_answers import MAX_OUTPUT_BYTES, read_answer, with_answer
from gpusquad.spec.check import spec_from_dict

SPEC = {"command": ["true"], "gpus": 1, "expect": {"by": "estimate", "run": "3h", "cpu": 2}}


@pytest.mark.parametrize(
    "printed",
    [b'{"run": "2h"}', b'  {"run": "2h"}\n', b'loading\nready\n{"run": "2h"}\n', b'{"expect": {"run": "2h"}}',
     b'{"run": "2h", "memory": null}'],
)  # fmt: skip
def test_object_is_found_in_the_output(printed: bytes) -> None:
    assert read_answer("estimate", printed, 1.0).fields == {"run": "2h"}


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (None, "cannot be read"),
        (b"", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b"{}", "no field"),
        (b'{"run": 1', "no JSON object"),
        (b"\xff\xfe", "no JSON object"),
        (b"[" * 5000, "no JSON object"),
        (b'{"runs": "2h"}', "'runs', which is not one of run"),
        (b'{"by": "rm"}', "'by', which is not one of"),
        (b'{"expect": [1]}', "'expect'"),
        (b" " * (MAX_OUTPUT_BYTES + 1), "more than 64 KiB"),
    ],
)
def test_other_output_is_a_warning(printed: bytes | None, words: str) -> None:
    answer = read_answer("estimate", printed, 1.0)
    assert answer.fields == {}
    assert words in answer.warning
    assert "queued without its answer" in answer.text


def test_answer_overrides_the_fields_of_the_job_file() -> None:
    spec = with_answer(spec_from_dict(SPEC), read_answer("estimate", b'{"run": "2h", "memory": "1GiB"}', 1.0))
    assert spec.expect is not None
    assert (spec.expect.run, spec.expect.cpu, spec.expect.memory, spec.expect.by) == ("2h", 2, "1GiB", None)


def test_value_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(Invalid):
        with_answer(spec_from_dict(SPEC), read_answer("estimate", b'{"run": "soon"}', 1.0))
