"""Tests of parsing progress from lines of output."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpusquad.agent.progress import LINE_LENGTH, StepProgress, parse

P = StepProgress

LINES = {
    # tqdm, alone and redrawn
    " 45%|████▌     | 45/100 [00:10<00:12, 4.50it/s]": P(45, 100),
    "train:   0%|          | 0/100 [00:00<?, ?it/s]": P(0, 100),
    "100%|##########| 100/100 [00:22<00:00,  4.5it/s, loss=0.1]": P(100, 100),
    "\r 44%|████  | 44/100 [00:10<00:12]\r 45%|████▌ | 45/100 [00:10<00:12, 4.50it/s]": P(45, 100),
    " 45%|████▌     | 45/100 [00:10<00:12, 4.50it/s]\r": P(45, 100),
    "45it [00:10,  4.50it/s]": P(45, None),
    # bytes are not steps
    "model.safetensors:  45%|████▌     | 1.2G/2.6G [00:10<00:12, 120MB/s]": None,
    # Lightning: the number of epochs is unknown, so the total is too
    "Epoch 3:  20%|██        | 12/60 [00:03<00:12,  3.90it/s, v_num=0]": P(192, None),
    "Epoch 3/9:  20%|██        | 12/60 [00:03<00:12,  3.90it/s, v_num=0]": P(192, 600),
    "Epoch 3/9 ━━━━━━━━━━━━━━━━ 12/60 0:00:03 • 0:00:12 3.90it/s v_num: 0": P(192, 600),
    "Epoch 0/1  ━━━━━━━━━━━━━━━━ 20/40 0:00:01 • 0:00:01 1302.26it/s ": P(20, 80),
    "Epoch 1/1  ━━━━━━━━━━━━━━━━ 40/40 0:00:00 • -:--:-- 1302.26it/s ": P(80, 80),
    # Hugging Face Trainer: the bar counts all steps
    " 12%|█▎        | 125/1000 [01:02<07:18,  2.00it/s]": P(125, 1000),
    "{'loss': 0.6931, 'grad_norm': 1.2, 'learning_rate': 4.5e-05, 'epoch': 0.5}": None,
    "  Num Epochs = 3": None,
    # Keras
    "Epoch 2/10": P(1, 10),
    " 45/100 [============>.................] - ETA: 3s - loss: 0.5": P(45, 100),
    "100/100 [==============================] - 3s 30ms/step": P(100, 100),
    "\x1b[1m45/100\x1b[0m \x1b[32m━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━\x1b[0m \x1b[1m1s\x1b[0m 30ms/step": P(45, 100),
    "45/100 ━━━━━━━━━━━━━━━━━━━━ 1s 30ms/step - loss: 0.5": P(45, 100),
    "\x08\x08\x08\x08\r 46/100 [============>.................] - ETA: 3s": P(46, 100),
    "     45/Unknown 3s 30ms/step - loss: 0.5": P(45, None),
    "40/40 - 1s - 24ms/step - loss: 4.2923 - val_loss: 1.8243": P(40, 40),
    "118/1875 [>.............................] - ETA: 3s - loss: 0.5": P(118, 1875),
    # DeepSpeed: its throughput timer, and its log of each step
    "steps: 10 loss: 64.5621 iter time (s): 0.002 samples/sec: 8432.711": P(10, None),
    "[2026-01-02 03:04:05,678] [INFO] [logging.py:107:log_dist] [Rank 0] step=10, skipped=0, lr=[0.01]": P(10, None),
    "[Rank 0] epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=8432.7": P(20, None),
    # Ray
    "Training finished iteration 3 at 2026-01-02 03:04:05. Total running time: 10s": P(3, None),
    "│ training_iteration                              3 │": P(3, None),
    # JAX and Flax print their own
    "step 100/1000, loss 0.000000": P(100, 1000),
    "train step: 100, loss: 0.0721": P(100, None),
    "completed step: 100, seconds: 5.912, TFLOP/s/device: 42.1, loss: 9.1": P(100, None),
    # MMEngine: a validation has its own bar
    "Epoch(train)  [2][ 50/100]  lr: 1.0e-02  eta: 0:01:02": P(250, None),
    # settings are not steps
    "total steps: 1000": None,
    "warmup steps: 10 loss scale: 65536": None,
    "  Total optimization steps = 1,000": None,
    # plain text
    "step 45/100": P(45, 100),
    "Step: 45 / 100, loss 0.1": P(45, 100),
    "iter 45 of 100": P(45, 100),
    "[45/100]": P(45, 100),
    "[45/100] Building CXX object": P(45, 100),
    " iteration      450/    1000 | consumed samples: 3600 |": P(450, 1000),
    "iter 450: loss 2.31, time 12ms": P(450, None),
    "global_step=45 loss=0.3": P(45, None),
    "INFO 2024-01-02 03:04:05 train.py:45] step 45/100": P(45, 100),
    # epochs and steps in one line
    "Epoch [2/10], Step [45/100], Loss: 0.25": P(145, 1000),
    "Epoch: [0][  10/5005]\tTime 0.2": P(10, None),
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3": P(60640, None),
    "Epoch 2/10: 45%|████ | 45/100 [00:01<00:01]": P(145, 1000),
    "Epoch 2/10 - loss: 0.25 - val_loss: 0.3": P(2, 10),
    "Epochs:  10%|█         | 1/10 [00:10<01:30, 10s/it]": P(1, 10),
    # no progress
    "": None,
    "epochs: 10": None,
    "2024/01/02 03:04:05 starting": None,
    "loading /data/1/2/shard-3": None,
    "accuracy 45/100": None,
    "step 45/0": None,
    "[145/100]": None,
    "ratio 1/3": None,
    "listening on [::1]:8080": None,
    "Epoch 12/10": None,
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES.items())
def test_known_formats_are_parsed(line, expected):
    assert parse(line) == expected
    assert parse(line.encode()) == expected


def test_only_the_end_of_a_long_line_is_parsed():
    assert parse("x" * 10**6 + " step 45/100") == P(45, 100)
    assert parse("step 45/100 " + "x" * LINE_LENGTH) is None
    cut = " step 145/1000"
    assert parse("9" * (LINE_LENGTH - 9) + cut) == P(145, 1000)


@given(st.text() | st.binary())
@example(b"\xff\xfe step 1/2")
@example("[" * 5000)
@example("%|" * 3000)
@example("step " * 1000)
@example("1/" * 3000)
@example("²/³ step ٤/٥")
def test_arbitrary_input_is_handled(line):
    found = parse(line)
    assert found is None or (found.step >= 0 and (found.total is None or 0 < found.total >= found.step))


FRAGMENTS = ["%|", "|", "45/100", " [", "]", "step ", "iter", "epoch ", "Epoch 3/9: ", "1", "/", "of", " ", "━", "\r",
             "\b", "\x1b[1m", "999999999999", "0", "v_num=", "it [0", "Unknown", ":", "=", "#", "("]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join))
def test_random_fragments_give_steps_within_the_total(line):
    found = parse(line)
    if found is not None and found.total is not None:
        assert 0 <= found.step <= found.total
        assert found.total <= 10**18


@given(step=st.integers(0, 10**9), total=st.integers(1, 10**9), epoch=st.integers(1, 50), epochs=st.integers(1, 50))
def test_parsed_numbers_equal_the_printed_ones(step, total, epoch, epochs):
    step, epoch = min(step, total), min(epoch, epochs)
    assert parse(f"{100 * step // total:3d}%|██  | {step}/{total} [00:01<00:02]") == P(step, total)
    assert parse(f"Epoch [{epoch}/{epochs}] step {step}/{total}") == P((epoch - 1) * total + step, epochs * total)


@pytest.mark.parametrize("piece", [*FRAGMENTS, "%|x", "1 ", " 1", "epoch 1", "step 1", "━ 1", "[1/", "\x1b[0;"])
def test_repeated_fragments_do_not_cause_backtracking(piece):
    """A pattern with exponential backtracking would not finish."""
    found = parse(piece * (2 * LINE_LENGTH // len(piece)))
    assert found is None or found.step >= 0
