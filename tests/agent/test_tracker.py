"""Tests of tracking progress over many lines of one task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.progress import StepProgress
from gpusquad.agent.tracker import Tracker


def bar(step, total, name=""):
    return f"{name}{100 * step // total}%|██   | {step}/{total} [00:01<00:02, 1.0it/s]"


def follow(*lines, at_us=0):
    tracker = Tracker()
    for line in lines:
        tracker.feed(f"{line}\n".encode(), at_us)
    return tracker.progress


def test_keras_epochs_and_bars_are_combined():
    keras = "{}/100 ━━━━━━━━ 1s 30ms/step - loss: 0.5"
    assert follow("Epoch 1/10") == StepProgress(0, 10)
    assert follow("Epoch 1/10", keras.format(45)) == StepProgress(45, 1000)
    assert follow("Epoch 1/10", keras.format(100), "Epoch 2/10") == StepProgress(100, 1000)
    assert follow("Epoch 1/10", keras.format(100), "Epoch 2/10", keras.format(45)) == StepProgress(145, 1000)


def test_evaluation_after_the_last_epoch_is_counted_separately():
    last = ("Epoch 2/2", "100/100 ━━━━━━━━ 1s", "13/50 ━━━━━━━━ 1s")
    assert follow(*last) == StepProgress(13, 50)


def test_evaluation_during_training_updates_only_the_time_of_progress():
    tracker = Tracker()
    tracker.feed(f"{bar(300, 1000)}\r".encode(), 1)
    tracker.feed(f"{bar(5, 50)}\r".encode(), 2)
    assert (tracker.progress, tracker.moved_us) == (StepProgress(300, 1000), 2)
    tracker.feed(f"{bar(301, 1000)}\r".encode(), 3)
    assert (tracker.progress, tracker.moved_us) == (StepProgress(301, 1000), 3)


def test_abandoned_bar_is_replaced_after_an_hour():
    tracker = Tracker()
    tracker.feed(f"{bar(4900, 5000)}\n".encode(), 0)
    tracker.feed(f"{bar(5, 50)}\n".encode(), 3600 * 10**6)
    assert tracker.progress == StepProgress(5, 50)


def test_progress_switches_from_preparation_to_training():
    assert follow(bar(5000, 5000, "Map: "), bar(1, 1000)) == StepProgress(1, 1000)


def test_repeated_bar_counts_rounds_with_unknown_total():
    assert follow(bar(100, 100), bar(1, 100)) == StepProgress(101, None)
    assert follow(bar(100, 100), bar(1, 100), bar(100, 100), bar(2, 100)) == StepProgress(202, None)


def test_interleaved_bars_are_not_counted_as_rounds():
    assert follow(bar(45, 100), bar(44, 100), bar(46, 100), bar(45, 100)) == StepProgress(45, 100)


def test_outer_bar_counts_and_nested_bar_does_not():
    assert follow(bar(1, 10, "Epochs: "), bar(45, 100), bar(46, 100)) == StepProgress(1, 10)


def test_repeated_progress_is_no_progress():
    tracker = Tracker()
    for at_us in (1, 2, 3):
        tracker.feed(b"step 45/100\n", at_us)
    assert tracker.moved_us == 1


def test_incomplete_line_counts_when_no_output_follows():
    tracker = Tracker()
    tracker.feed(b"step 4", 1)
    assert tracker.progress is None
    tracker.feed(b"5/10", 2)
    assert tracker.progress is None
    tracker.feed(b"0", 3)
    tracker.settle(4)
    assert (tracker.progress, tracker.moved_us) == (StepProgress(45, 100), 4)


def test_incomplete_line_after_a_gap_is_ignored():
    tracker = Tracker()
    tracker.feed(b"step 1", 1)
    tracker.feed(b"5/100\nloss 0.3\n", 2, after_gap=True)
    assert tracker.progress is None
    tracker.feed(b"step 46/100\n", 3)
    assert tracker.progress == StepProgress(46, 100)


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_progress_is_independent_of_chunk_boundaries(cut):
    data = "".join(f"\r{bar(step, 20)}" for step in range(21)).encode() + b"\n"
    tracker = Tracker()
    for start in range(0, len(data), cut):
        tracker.feed(data[start : start + cut], start)
    assert tracker.progress == StepProgress(20, 20)


@given(st.lists(st.tuples(st.binary(max_size=200), st.booleans()), max_size=20))
def test_arbitrary_bytes_are_handled(chunks):
    tracker = Tracker()
    for number, (data, after_gap) in enumerate(chunks):
        tracker.feed(data, number, after_gap=after_gap)
    tracker.settle(len(chunks))
    assert tracker.progress is None or tracker.progress.step >= 0


LINES = st.sampled_from(
    [bar(1, 10), bar(10, 10), bar(3, 7), "Epoch 1/3", "Epoch 2/3: loss 1", "step 5", "Epoch 4: " + bar(2, 9)]
)


@given(st.lists(LINES, max_size=30))
def test_lines_in_any_order_give_a_ratio_of_at_most_one(lines):
    progress = follow(*lines)
    assert progress is None or progress.total is None or 0 <= progress.step <= progress.total
