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

SERVES = """
import http.server
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)
serving = threading.Thread(target=server.serve_forever, daemon=True); serving.start()
"""
TRAINS = "for step in range(1, 41): say(f'step {step}/100 loss {1 / step:.3f}'); time.sleep(0.05)\n"
MORE = (
    Program("training-with-metrics", f"{SERVES}{TRAINS}lock = threading.Lock(); lock.acquire(); lock.acquire()",
            rule="silent"),
    Program("attempts", "attempt = 0\nwhile True:\n attempt += 1; time.sleep(0.1)\n"
            " say(f'attempt {attempt}: connection refused, retrying')", rule="repeats"),
    Program("command-pipe", "import tempfile; name = tempfile.mkdtemp() + '/commands'; os.mkfifo(name); open(name)"),
    Program("serves-when-trained", f"{TRAINS}{SERVES}serving.join()"),
    Program("model-server", f"say('[2/3] starting'){SERVES}serving.join()"),
    Program("ticks", "tick = 0\nwhile True: tick += 1; say('tick', tick); time.sleep(0.1)"),
)  # fmt: skip


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


def test_what_else_a_program_does_tells_a_hang_from_a_wait_for_somebody(tmp_path: Path):
    verdicts = play(tmp_path, 25, SPEED, CONFIG, MORE)
    assert {one["program"]: one["rule"] for one in verdicts} == {program.name: program.rule for program in MORE}
