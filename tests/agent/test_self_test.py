"""Self-tests of cards: the port's contract, which tests run when, and what they do to the health of a card."""

from __future__ import annotations

import json
import sys

import pytest

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import CardProcess, CardReading, JobProcess, TestResult
from gpusquad.agent.no_cards import NoCards
from gpusquad.agent.self_test import CardTests, CudaTester, NoTester, free_cards
from gpusquad.agent.simulated import FAULTS_FILE, SimulatedInventory
from gpusquad.agent.wire import read_tests
from gpusquad.gpu.nvml import CardReader
from gpusquad.gpu.self_test import expected_word
from gpusquad.model.errors import Invalid

PASSED, FAILED, UNKNOWN = (
    TestResult(True, "fine"),
    TestResult(False, "2 words are wrong"),
    TestResult(None, "no driver"),
)


def program_tester(program: str, timeout_s: float = 30.0) -> CudaTester:
    return CudaTester((sys.executable, "-c", program), timeout_s)


# -- the contract of the port ------------------------------------------------------------------------------------------


def real_card() -> str:
    try:
        card = CardReader()
    except Invalid as error:
        pytest.skip(f"needs an NVIDIA card: {error}")
    return card._text("nvmlDeviceGetUUID", card.handle)


@pytest.fixture(params=["simulated", "cuda"])
def tester(request, tmp_path):
    if request.param == "simulated":
        return SimulatedInventory(1, tmp_path).tester, "SIM-0"
    return CudaTester(), real_card()


def test_healthy_card_passes_and_the_result_says_what_was_tested(tester):
    cards, card = tester
    result = cards.test(card)
    assert result.passed is True
    assert result.detail


@pytest.mark.parametrize("make", [lambda path: SimulatedInventory(1, path).tester, lambda path: CudaTester(),
                                  lambda path: NoTester(), lambda path: NoCards().tester])  # fmt: skip
def test_unknown_card_cannot_be_tested(tmp_path, make):
    result = make(tmp_path).test("GPU-00000000-0000-0000-0000-000000000000")
    assert result.passed is None
    assert result.detail


# -- the program -------------------------------------------------------------------------------------------------------


def test_answer_of_the_program_is_the_result():
    told = json.dumps({"passed": False, "detail": "x" * 1000})
    assert program_tester(f"print({told!r})").test("GPU-a") == TestResult(False, "x" * 300)


def test_program_that_never_returns_is_a_failure_of_the_card():
    result = program_tester("import time; time.sleep(600)", 0.2).test("GPU-a")
    assert result == TestResult(False, "the card did not finish it within 0.2 s")


@pytest.mark.parametrize("program", ["raise SystemExit('broken')", "print('[]')", "print('{}')"])
def test_program_without_an_answer_says_nothing_about_the_card(program):
    assert program_tester(program).test("GPU-a").passed is None


def test_program_that_cannot_be_started_says_nothing_about_the_card(tmp_path):
    assert CudaTester((str(tmp_path / "missing"),)).test("GPU-a").passed is None


def test_words_of_the_test_differ_by_index_and_seed():
    words = [expected_word(index, 1) for index in range(100)]
    assert len(set(words)) == 100
    assert all(0 <= word < 2**32 for word in words)
    assert not any(word == expected_word(index, 2) for index, word in enumerate(words))


# -- which tests run ---------------------------------------------------------------------------------------------------


class Scripted:
    """Runs tests at once, or when the test says so."""

    def __init__(self, result: TestResult | Exception = PASSED, at_once: bool = True) -> None:
        self.result, self.at_once, self.waiting, self.tested = result, at_once, [], []
        self.tests = CardTests(self, now_us=lambda: 7, clock_s=lambda: 0.0, in_background=self._start)

    def test(self, card):
        self.tested.append(card)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def _start(self, run):
        run() if self.at_once else self.waiting.append(run)

    def step(self, *faulty, busy=()):
        return self.tests.step(faulty, lambda card: card not in busy)


def test_faulty_card_is_tested_when_it_is_free():
    cards = Scripted()
    assert cards.step("A", busy=["A"]) == []
    cards.step("A")
    assert cards.step() == [("A", PASSED)]
    assert cards.tests.result("A") == {"passed": True, "detail": "fine", "at_us": 7, "took_s": 0.0}
    assert cards.tests.result("B") is None


def test_card_is_tested_once_for_each_request():
    cards = Scripted()
    for _ in range(3):
        cards.tests.ask(["A"])
        cards.step()
    assert cards.tested == ["A"]
    cards.tests.ask([])
    cards.tests.ask(["A"])
    cards.step()
    assert cards.tested == ["A", "A"]


def test_parts_of_a_divided_card_are_tested_together():
    cards = Scripted()
    cards.step("GPU-a.1of2", "GPU-a.2of2")
    assert cards.tested == ["GPU-a"]
    assert cards.tests.result("GPU-a.2of2") is not None


def test_few_tests_run_at_a_time():
    cards = Scripted(at_once=False)
    for _ in range(2):
        cards.step(*"ABCDEFGH")
    assert len(cards.waiting) == 4
    for run in cards.waiting[:4]:
        run()
    cards.step(*"ABCDEFGH")
    assert len(cards.waiting) == 8


def test_tester_that_raises_says_nothing_about_the_card():
    cards = Scripted(RuntimeError("boom"))
    cards.step("A")
    assert [result.passed for _, result in cards.step()] == [None]


def test_card_is_free_when_neither_jobs_nor_large_processes_use_it():
    readings = [
        CardReading("A", processes=()),
        CardReading("B", processes=(CardProcess(1, 2**30, name="python"),)),
        CardReading("C", trouble="gone"),
        CardReading("D", processes=(CardProcess(1, 2**30, name="nvidia-cuda-mps-server"),)),
        CardReading("E.1of2"),
        CardReading("E.2of2"),
    ]
    is_free = free_cards(readings, used=["E.2of2"])
    assert [card for card in "ABCDE" if is_free(card)] == ["A", "D"]


@pytest.mark.parametrize("line", ["", "[]", '{"tests": 1}', "nonsense"])
def test_invalid_requests_are_refused(line):
    with pytest.raises(ValueError, match="tests"):
        read_tests(line)


def test_older_services_ask_for_no_tests():
    assert read_tests('{"runs": []}') == ()
    assert read_tests('{"tests": ["A"]}') == ("A",)


# -- what they do to the health of a card ------------------------------------------------------------------------------


@pytest.fixture
def health():
    health = CardHealth(["A"])
    for second in range(40):
        health.see(CardReading("A"), second)
    return health


def kinds(messages):
    return [message["kind"] for message in messages]


def test_doubtful_fault_ends_with_a_passed_test(health):
    assert kinds(health.fault("A", "Xid 32", 50, "doubtful")) == ["card_fault"]
    assert health.to_test(50) == ["A"]
    assert kinds(health.tested("A", PASSED, 51)) == ["card_ok"]
    assert health.to_test(52) == []
    assert kinds(health.fault("A", "Xid 32", 53, "doubtful")) == ["card_fault"]


def test_fault_of_the_card_does_not_end_with_a_test(health):
    health.fault("A", "Xid 79", 50, "card")
    assert health.to_test(50) == []
    assert health.tested("A", PASSED, 51) == []


def test_card_that_cannot_be_tested_returns_after_a_while(health):
    health.fault("A", "Xid 32", 50, "doubtful")
    assert health.tested("A", UNKNOWN, 51) == []
    assert health.to_test(52) == []
    assert [second for second in range(51, 100) if health.see(CardReading("A"), second)] == [80]


def test_card_that_failed_its_test_stays_out_until_another_one_passes(health):
    health.fault("A", "Xid 32", 50, "doubtful")
    (failed,) = health.tested("A", FAILED, 51)
    assert failed == {"kind": "card_fault", "card": "A", "class": "card",
                      "cause": "self-test failed: 2 words are wrong"}  # fmt: skip
    assert not any(health.see(CardReading("A"), second) for second in range(52, 600))
    assert health.to_test(600) == []
    assert health.to_test(651) == ["A"]
    assert kinds(health.tested("A", PASSED, 652)) == ["card_ok"]


def test_xid_of_a_program_leaves_the_card_in_use(health):
    (message,) = health.fault("A", "Xid 31", 50, "program")
    assert message["class"] == "program"
    assert (health.to_test(50), health.see(CardReading("A"), 51)) == ([], [])


def test_the_same_doubtful_fault_is_reported_for_the_next_job_but_not_many_times_at_once(health):
    assert kinds(health.fault("A", "Xid 32", 50, "doubtful")) == ["card_fault"]
    assert health.fault("A", "Xid 32", 50.01, "doubtful") == []
    assert kinds(health.fault("A", "Xid 32", 51, "doubtful")) == ["card_fault"]


# -- simulated faults --------------------------------------------------------------------------------------------------


def process(pid: int, card: str, name: str = "poison") -> JobProcess:
    return JobProcess(pid, name, "J", 0, (card,), None, 0)


def test_simulated_process_causes_a_fault_once_on_each_card(tmp_path):
    (tmp_path / FAULTS_FILE).write_text('{"process:poison": "Xid 32"}')
    cards, faults = SimulatedInventory(3, tmp_path), []
    cards.watch(lambda *fault: faults.append(fault))
    readings = []
    for _ in range(2):
        readings = cards.read([process(1, "SIM-0"), process(2, "SIM-1"), process(3, "SIM-2", "honest")])
    assert faults == [("SIM-0", "Xid 32", "doubtful"), ("SIM-1", "Xid 32", "doubtful")]
    assert [reading.trouble for reading in readings] == [None, None, None]


def test_simulated_card_fails_its_test_if_the_file_says_so(tmp_path):
    (tmp_path / FAULTS_FILE).write_text('{"test:SIM-0": "wrong words"}')
    assert SimulatedInventory(1, tmp_path).tester.test("SIM-0") == TestResult(False, "wrong words")
