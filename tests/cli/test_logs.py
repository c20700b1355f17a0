"""``gpusquad logs``."""

from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.cli._log_lines import MAX_LINE_CHARS, LogPrinter
from gpusquad.client.logs import LogChunk
from tests.canned.jobs import job
from tests.fake_service import FakeAnswer, sse

ID = "01jcp6m8qwz4t7y2k90002bxdf"


def part(text: str, *, task: int = 0, attempt: int = 0, end: bool = True) -> dict:
    return {"task": task, "attempt": attempt, "offset": 0, "next": len(text.encode()), "text": text, "end": end}


def test_one_task_without_names(service, gsq):
    assert gsq("logs", "llama-finetune").stdout == "step 1\nstep 2\nhalf a l\n"


def test_several_tasks_with_names(service, gsq):
    service.set_answers("GET", f"/jobs/{ID}/logs", part("a\nb\n"), part("c", task=1))
    assert gsq("logs", ID).stdout == "[0] a\n[0] b\n[1] c\n"
    assert [request.query["task"] for request in service.requests_to("GET", f"/jobs/{ID}/logs")] == [["0"], ["1"]]


def test_roles_where_the_service_tells_them(service, gsq):
    places = [{"task": n, "node": "n1", "cards": [], "role": "worker", "role_index": n} for n in (0, 1)]
    view = job(service.now_s, 2, "x", "running", tasks=2, placement=places)
    service.set_answers("GET", f"/jobs/{ID}", view)
    service.set_answers("GET", f"/jobs/{ID}/logs", part("a"), part("b", task=1))
    assert gsq("logs", ID).stdout == "[worker-0] a\n[worker-1] b\n"


def test_one_of_several(service, gsq):
    service.set_answers("GET", f"/jobs/{ID}/logs", part("c\n", task=1))
    assert gsq("logs", ID, "--task", 1, "--tail", 5, "--attempt", 2).stdout == "c\n"
    query = service.requests[-1].query
    assert (query["task"], query["tail"], query["attempt"]) == (["1"], ["5"], ["2"])


def test_following_over_attempts(service, gsq):
    service.set_answers("GET", "/jobs/01jcp6m8qwz4t7y2k90004bxdf/logs/stream", FakeAnswer(parts=[
        sse("log", part("one\nha")), sse("log", part("lf\n") | {"offset": 6, "next": 9}),
        sse("log", part("again", attempt=1)), sse("end", {"state": "succeeded"}),
    ]))  # fmt: skip
    result = gsq("logs", "-f", "llama-finetune", "--tail", 3)
    assert result.stdout == "one\nhalf\nagain\n"
    assert result.stderr == "— attempt 1 —\nThe job ended: succeeded\n"
    assert service.requests[-1].query["tail"] == ["3"]


def test_escape_sequences_are_shown_not_obeyed(service, gsq):
    hostile = "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b[2J\u202e\n50%\r100%\r\n"
    service.set_answers("GET", "/jobs/llama-finetune/logs", part(hostile))
    assert gsq("logs", "llama-finetune").stdout == "red ^[]0;owned^G ^[[2J\\u202e\n50%\n100%\n"
    assert gsq("logs", "llama-finetune", "--raw").stdout == hostile.replace("\r\n", "\n")  # the runner's doing


def test_what_does_not_go_together(service, gsq):
    assert "not a task number" in gsq("logs", "x", "--task", "one", code=2).stderr
    assert "cannot be combined with --follow" in gsq("logs", "x", "-f", "--attempt", 1, code=2).stderr


def test_no_such_job(service, gsq):
    gsq("logs", "nope", code=3)
    gsq("logs", "-f", "nope", code=3)


def shown(pieces: Iterable[str]) -> str:
    with redirect_stdout(StringIO()) as out:
        printer = LogPrinter({}, raw=False)
        for piece in pieces:
            printer.show(LogChunk(0, 0, 0, 0, piece))
        printer.finish()
    return out.getvalue()


LINES = "one\r\ntwo\x1b[31m red\x1b[0m\n10 %\r20 %\r\r\n\ttab\n\nlast"
READ = "one\ntwo red\n10 %\n20 %\n\ttab\n\nlast\n"


@given(st.lists(st.integers(0, len(LINES)), max_size=6))
def test_lines_do_not_depend_on_how_they_come(cuts):
    edges = sorted({0, *cuts, len(LINES)})
    assert shown(LINES[a:b] for a, b in pairwise(edges)) == READ


def test_a_line_without_end_is_shown_in_pieces(capsys):
    printer = LogPrinter({}, raw=False)
    for _ in range(5):
        printer.show(LogChunk(0, 0, 0, 0, "x" * MAX_LINE_CHARS))
    assert len(capsys.readouterr().out) >= 4 * MAX_LINE_CHARS


def test_progress_bars_do_not_pile_up_while_they_are_followed(capsys):
    printer = LogPrinter({}, raw=False)
    printer.show(LogChunk(0, 0, 0, 0, "10 %\r20 %\r"))
    assert capsys.readouterr().out == "10 %\n"
