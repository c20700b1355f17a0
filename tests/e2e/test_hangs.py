"""Real programs that hang, loop, or only look like it, two hundred times as fast as by default."""

from __future__ import annotations

from pathlib import Path

from bench.hang_rules import play
from bench.hangs.programs import HEALTHY, MISBEHAVING, Program

SPEED = 200.0
CONFIG = (
    "[hang]\nsilent_s = 3\nspinning_s = 3\nstopped_s = 3\nnan_s = 3\nrepeats_s = 3\nflood_s = 3\nstop_after_s = 1.5\n"
    "[cluster]\nsample_every_s = 0.2\n"
)
LOOPS = ("repeated-line", "repeated-step", "nan", "deadlocked-threads", "stopped-rank", "dataloader")
LOOK_ALIKES = ("download-bars", "warm-up", "notebook", "repl", "waits-for-file", "slow-download")
"""Of each kind those that need little CPU. The bench plays all of them at their own speed."""


def chosen(programs: tuple[Program, ...], names: tuple[str, ...]) -> tuple[Program, ...]:
    return tuple(program for program in programs if program.name in names)


def test_loops_are_stopped_with_their_evidence(tmp_path: Path):
    verdicts = play(tmp_path, 60, SPEED, CONFIG, chosen(MISBEHAVING, LOOPS))
    assert {one["program"]: one["rule"] for one in verdicts} == {
        program.name: program.rule for program in chosen(MISBEHAVING, LOOPS)
    }
    assert all(one["lines"] for one in verdicts if one["rule"] in ("repeats", "stuck", "nan", "silent"))


def test_programs_that_only_look_like_it_are_left_alone(tmp_path: Path):
    verdicts = play(tmp_path, 15, SPEED, CONFIG, chosen(HEALTHY, LOOK_ALIKES))
    assert [one["program"] for one in verdicts if not one["right"]] == []
