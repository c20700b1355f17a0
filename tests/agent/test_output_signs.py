"""Lines that are new, repeat, carry the same step, or losses that are not numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.output_signs import KEPT_LINES, OutputReading, OutputSigns, combine_readings
from gpusquad.agent.tracker import Tracker

S = 1_000_000


def signs_of(lines: list[str], end: str = "\n") -> OutputReading:
    """One line per second."""
    tracker = Tracker()
    for second, line in enumerate(lines):
        tracker.feed((line + end).encode(), second * S)
    return tracker.signs.reading()


@pytest.mark.parametrize(
    "line",
    [
        "waiting for data",
        "2026-03-01T12:00:{s:02d}.123Z INFO retrying",
        "[12:00:{s:02d}] step 5/100",
        "1772366{s:03d} still here",
        "took 0.0{s}1 s, 3.{s} it/s",
        "elapsed: {s}.5 pid=4{s}",
    ],
)
def test_line_that_differs_in_times_only_is_repeated(line: str):
    reading = signs_of([line.format(s=second) for second in range(40)])
    assert (reading.new_us, reading.repeated) == (0, 39)


@pytest.mark.parametrize("line", ["step {s}/100", "loss 0.{s}3", "file img_{s}.png", "attempt {s}: no route to host"])
def test_line_with_a_number_that_moves_is_new(line: str):
    reading = signs_of([line.format(s=second) for second in range(40)])
    assert (reading.new_us, reading.repeated) == (39 * S, 0)


@pytest.mark.parametrize("lines", [
    ["attempt {s}: connection refused, retrying"],
    ["2026-03-01T12:00:{s:02d}Z WARN still waiting for the data server ({s})"],
    ["Retry #{s} in 5 s", "connecting to 10.0.0.7:5000", "connection refused"],
    ["server not ready after {s} attempts"],
    ["waiting for the server... {s}"],
    ["--2026-03-01 12:00:{s:02d}--  (try:{s:2d})  http://h/f", "Connecting to h:1... failed: Connection refused."],
    ["Process ForkPoolWorker-{s}:", "RuntimeError: initialization error"],
    ["worker died, {s} restarts so far"],
    ["transaction {s} aborted, restarting"],
    ["request 0000{s:04d}-aaaa-4bbb-8ccc-0123456789ab failed: 503, retrying", "giving up"],
    ["cannot connect, session f00dbeefcafe{s:04d}"],
])  # fmt: skip
def test_attempts_that_are_counted_are_not_new(lines: list[str]):
    reading = signs_of([line.format(s=second) for second in range(40) for line in lines])
    first = len(lines) * 2 - 1
    assert reading.retry_us is not None
    assert reading.retry_us <= first * S
    assert reading.retries >= 38 * len(lines)
    assert reading.new_us is not None
    assert reading.new_us > 38 * S, "by the lines alone"


@pytest.mark.parametrize("line", [
    "step {s}", "tick {s}", "{s}", "step {s}: retrying", "attempt {s}/100: connection refused",
    "waiting for shard {s}", "waiting for {s} more workers", "waiting for workers ({s} connected)",
    "connection refused by host-{s}", "cannot connect to 10.0.0.{s}", "attempt {s}: retrying, loss 0.{s}1",
    "no answer from host ({s}), trying the next",
    "retry {s} % done",
    "ForkPoolWorker-{s} finished",
    "stored f00dbeefcafe{s:04d}",
])  # fmt: skip
def test_other_numbers_that_move_are_new(line: str):
    reading = signs_of([line.format(s=second) for second in range(40)])
    assert (reading.retry_us, reading.retries) == (39 * S, 0)


@pytest.mark.parametrize("numbers", [range(400, 0, -10), [n * n for n in range(40)]], ids=["falls", "grows faster"])
def test_number_of_what_is_waited_for_is_new(numbers: list[int]):
    reading = signs_of([f"waiting for the files ({number})" for number in numbers])
    assert (reading.retry_us, reading.retries) == (39 * S, 0)


@pytest.mark.parametrize(("line", "alike"), [
    ("tick {s}", 39), ("waiting for shard {s}", 39), ("step {s}", 0), ("loss 0.{s}", 0), ("epoch {s}/100", 0),
])  # fmt: skip
def test_lines_that_differ_in_numbers_are_alike_unless_they_show_progress(line: str, alike: int):
    assert signs_of([line.format(s=second) for second in range(40)]).alike == alike


def test_round_of_several_lines_is_repeated():
    assert signs_of(["connecting", "refused", "sleeping"] * 20).repeated == 57


def test_bar_that_is_redrawn_is_no_repetition_but_can_be_new():
    assert signs_of(["  5%|#    | 5/100 [00:10<03:00]"] * 40, end="\r").repeated == 0
    moving = signs_of([f" {n}%|#    | {n}/100 [00:10<03:00]" for n in range(40)], end="\r")
    assert moving.new_us == 39 * S


def test_same_step_counts_although_its_loss_varies():
    reading = signs_of([f"step 5/100 loss 0.{second}7" for second in range(40)])
    assert (reading.same_step, reading.same_step_us) == (39, 0)


@pytest.mark.parametrize(
    "line",
    ["step {s}/100 loss 0.3", "step 5/100 batch {s}", "[2/5] converting image{s}", "Epoch 5/100 loss 0.{s}7"],
)
def test_step_with_anything_else_that_moves_is_not_the_same(line: str):
    assert signs_of([line.format(s=second) for second in range(40)]).same_step == 0


def test_losses_that_are_not_numbers_count_until_one_is():
    reading = signs_of(["loss 0.5", *["epoch 3 loss: nan, lr 0.1"] * 6])
    assert (reading.nan_us, reading.nan_lines) == (S, 6)
    assert signs_of(["loss nan"] * 6 + ["loss=0.25"]).nan_us is None


@pytest.mark.parametrize(
    "line",
    [
        "loss nan", "train_loss=NaN", '{"loss": NaN, "step": 3}', "{'loss': nan, 'epoch': 1.0}",
        "{'loss': 'nan', 'epoch': '1.0'}", '{"loss": "NaN"}', "{'loss': 0.0, 'grad_norm': nan, 'epoch': 1.0}",
        "update 5 grad_norm=nan",
        "Loss: -inf", "loss is nan", "loss: tensor(nan, device='cuda:0')", "step 7 perplexity inf",
    ],
)  # fmt: skip
def test_loss_that_is_not_a_number_is_found_in_every_spelling(line: str):
    assert signs_of([line] * 5).nan_lines == 5


@pytest.mark.parametrize(
    "line",
    [
        "loss 0.1 aux_loss nan",
        "grad_norm inf",
        "iter 3 reward 0.2 best_val_loss=inf",
        "generation 3 best loss inf",
        "best val loss: inf",
        "lowest loss inf, previous loss nan, min loss inf",
        '{"loss": null, "reward": 3.0}',
        "loss 0.5 grad_norm nan",
        "steps 9 actor_loss: nan",
        "information lossless",
        "nan values dropped: 3",
        "lossy nan codec",
    ],
)
def test_other_nan_is_no_loss(line: str):
    assert signs_of([line] * 5).nan_us is None


def test_loss_of_another_kind_counts_once_it_was_a_number():
    assert signs_of(["val_loss 0.5", *["val_loss nan"] * 5]).nan_lines == 5
    assert signs_of(["best_loss 0.5", *["best_loss nan"] * 5]).nan_us is None


def test_null_is_no_number_once_the_loss_was_one():
    assert signs_of(['{"loss": 0.5}', *['{"loss": null}'] * 5]).nan_lines == 5


@pytest.mark.parametrize(("header", "row"), [
    ("epoch,train_loss,val_loss", "{s},nan,nan"),
    ("   Epoch GPU_mem box_loss cls_loss Size", " {s}/100 2.1G nan nan 640: 10%|# | 1/10 [0:01<0:09,  1.00it/s]"),
])  # fmt: skip
def test_losses_in_a_table_are_found_by_its_header(header: str, row: str):
    assert signs_of([header, *(row.format(s=second) for second in range(5))]).nan_lines == 5
    assert signs_of([header, row.format(s=1).replace("nan", "0.5", 1)]).nan_us is None


@pytest.mark.parametrize(("lines", "doubtful"), [
    ([f"trial {n} lr {10 * 0.9**n:.4f} final loss nan" for n in range(9)], True),
    ([f"episode {n} return {n * 7 % 5}.0 loss nan" for n in range(9)], True),
    ([f"step {n} loss nan lr {10 * 0.9**n:.4f}" for n in range(9)], False),
    ([f"{{'loss': nan, 'grad_norm': nan, 'learning_rate': {9 - n}.0}}" for n in range(9)], False),
    (["loss 0.5", *(f"episode {n} return {n * 7 % 5}.0 loss nan" for n in range(9))], False),
    ([f"Epoch: {n} Train Loss: NaN Acc: 10.00%" for n in range(9)], False),
])  # fmt: skip
def test_nan_from_the_beginning_is_doubtful_if_another_value_changes(lines: list[str], doubtful: bool):
    assert signs_of(lines).nan_doubtful is doubtful


def test_loss_that_falls_at_the_same_step_improves_and_noise_does_not():
    falls = signs_of([f"Step 1/20 closure loss {5 * 0.9995**n:.6f}" for n in range(400)])
    assert falls.improved_us is not None
    assert falls.improved_us > 300 * S
    noise = signs_of([f"step 5/20 loss {2 + (n * 617 % 1009) / 1e5:.5f}" for n in range(400)])
    assert (noise.improved_us or 0) < 100 * S


@pytest.mark.parametrize(("line", "trouble"), [
    ("connection refused", 1), ("FileNotFoundError: x", 1), ("cannot open it", 1), ("still waiting", 1), ("OK", 0),
    ("PASS", 0), ("checked, 0 errors", 0), ("error in file, skipping", 0), ("batch", 0),
])  # fmt: skip
def test_repeated_lines_about_errors_and_waiting_are_counted(line: str, trouble: int):
    reading = signs_of([line] * 40)
    assert (reading.repeated, reading.troubles) == (39, 39 * trouble)


@pytest.mark.parametrize(("line", "succeeds"), [
    ("PASS", True), ("already converted, skipping", True), ("corrupt file, error, skipping", False),
    ("still waiting", False), ("batch", False),
])  # fmt: skip
def test_repeated_lines_about_success_are_told_from_trouble(line: str, succeeds: bool):
    assert signs_of(["Loading is done", *[line] * 40]).succeeds is succeeds


def test_restarted_program_is_seen_by_its_tracebacks():
    lines = ["Traceback (most recent call last):", '  File "x.py", line 1', "ModuleNotFoundError: No module named 'y'"]
    reading = signs_of(lines * 20)
    assert (reading.repeated, reading.crashes) == (57, 19)
    assert signs_of([*lines * 20, "OK", "OK"]).crashes == 0


def test_steps_that_go_back_after_an_error_count():
    life = [
        "Resuming from checkpoint-100",
        *(f"step {step}/1000 loss 0.{step}" for step in range(101, 108)),
        "CUDA error",
    ]
    reading = signs_of(life * 10)
    assert (reading.ahead_us, reading.falls, reading.restarts >= 9) == (8 * S, 9, True)


@pytest.mark.parametrize("lines", [
    [f"step {step}/5 loss 0.{fold}" for fold in range(10) for step in range(1, 6)],
    [f"epoch {epoch} step {step}/1000" for epoch in range(10) for step in range(1, 6)],
    [line for trial in range(10) for line in (f"trial {trial}", "step 1/1000", "step 2/1000")],
    [f"[{step}/1000] file {number}" for number in range(10) for step in (1, 2)],
    [f"step {step}/{total}" for _ in range(10) for step, total in ((5, 1000), (1, 10))],
])  # fmt: skip
def test_rounds_with_any_other_progress_do_not_go_back(lines: list[str]):
    assert signs_of(lines).falls <= 1


def test_longest_step_is_remembered():
    lines = [*["step 1/9 loss 0.1"] * 3, *["step 2/9 loss 0.2"] * 7, *["step 3/9 loss 0.4"] * 20]
    assert signs_of(lines).longest_step_us == 7 * S


def test_evaluation_that_names_the_step_of_the_training_is_not_the_same_step():
    assert signs_of([f"[step 5000] eval loss 2.{second}1" for second in range(40)]).same_step == 0


def test_memory_is_bounded():
    signs = OutputSigns()
    for number in range(3 * KEPT_LINES):
        signs.take(f"line {number}".encode(), None, number, complete=True)
    assert len(signs._exact) == KEPT_LINES
    signs.take(b"line 0", None, 1, complete=True)
    assert signs.reading().repeated == 0, "forgotten long ago"


@given(lines=st.lists(st.binary(max_size=60), max_size=30))
def test_any_bytes_are_accepted(lines: list[bytes]):
    signs = OutputSigns()
    for at_us, line in enumerate(lines):
        signs.take(line, None, at_us, complete=True)
    reading = signs.reading()
    assert reading.repeated <= len(lines)
    assert len(reading.sample) <= 3


def test_tasks_together_do_something_new_if_one_does():
    stuck = signs_of(["loss nan"] * 30)
    works = signs_of([f"loss 0.{n}" for n in range(30)])
    both = combine_readings([stuck, works])
    assert (both.new_us, both.nan_us) == (29 * S, None)
    assert combine_readings([stuck, signs_of([])]).nan_us == 0
    assert combine_readings([]) == OutputReading()


def test_bar_that_is_drawn_again_for_each_file_is_new_while_it_moves():
    files = [f" {percent:3d}% [====] 4.2MB/s" for _ in range(3) for percent in range(0, 101, 10)]
    assert signs_of(files).new_us == (len(files) - 1) * S
    assert signs_of(files, end="\r").new_us == (len(files) - 1) * S
    assert signs_of(["disk 45 % full"] * 40).repeated == 39
