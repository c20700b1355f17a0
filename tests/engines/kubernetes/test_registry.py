"""Stateful test of the gang registry with a simulated cluster in which events happen in any order."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.engines.kubernetes.world.rest import check_rest
from tests.engines.kubernetes.world.world import World

NUMBER = st.integers(0, 10**6)
GROUPS = st.sampled_from(["a", "b"])
SIZES = {"a": 2, "b": 3, "j": 2, "k": 3}


class RegistryMachine(RuleBasedStateMachine):
    """Random events; in the end the cluster settles, and every gang is pending, running or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    # -- users -------------------------------------------------------------------------------------------------------

    @rule(group=GROUPS, number=st.integers(0, 3))
    def make_bare_pod(self, group: str, number: int) -> None:
        self.world.make_bare(group, SIZES[group], number)

    @rule(number=st.integers(0, 2))
    def make_single(self, number: int) -> None:
        if f"single-{number}" not in self.world.pods:
            self.world.make(f"single-{number}")

    @rule(name=st.sampled_from(["j", "k"]))
    def make_job(self, name: str) -> None:
        self.world.make_job(name, SIZES[name])
        self.world.control(name)

    @precondition(lambda self: self.world.jobs)
    @rule(number=NUMBER)
    def delete_job(self, number: int) -> None:
        self.world.delete_job(_pick(sorted(self.world.jobs), number))

    @precondition(lambda self: self.world.pods)
    @rule(number=NUMBER)
    def delete_pod(self, number: int) -> None:
        self.world.delete_pod(_pick(sorted(self.world.pods), number))

    @precondition(lambda self: self.world.pods)
    @rule(number=NUMBER, group=GROUPS)
    def relabel(self, number: int, group: str) -> None:
        self.world.relabel(_pick(sorted(self.world.pods), number), group)

    # -- controllers and kubelets --------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.jobs)
    @rule(number=NUMBER)
    def control(self, number: int) -> None:
        self.world.control(_pick(sorted(self.world.jobs), number))

    @precondition(lambda self: self.world.pods)
    @rule(number=NUMBER, phase=st.sampled_from(["Running", "Running", "Succeeded", "Failed", "gone"]))
    def run_pod(self, number: int, phase: str) -> None:
        self.world.run_pod(_pick(sorted(self.world.pods), number), phase)

    # -- messages in flight --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.events)
    @rule(times=st.integers(1, 6))
    def deliver(self, times: int) -> None:
        for _ in range(min(times, len(self.world.events))):
            self.world.deliver()

    @precondition(lambda self: self.world.reports)
    @rule(times=st.integers(1, 6))
    def on_change(self, times: int) -> None:
        for _ in range(min(times, len(self.world.reports))):
            self.world.on_change()

    @precondition(lambda self: self.world.calls)
    @rule(times=st.integers(1, 6))
    def call(self, times: int) -> None:
        for _ in range(min(times, len(self.world.calls))):
            self.world.calls.popleft()()

    @precondition(lambda self: self.world.binds)
    @rule(number=NUMBER)
    def apply_binding(self, number: int) -> None:
        self.world.apply_binding(number % len(self.world.binds))

    @precondition(lambda self: self.world.binds)
    @rule(number=NUMBER)
    def refuse(self, number: int) -> None:
        self.world.refuse(number % len(self.world.binds))

    @precondition(lambda self: self.world.binds)
    @rule(number=NUMBER)
    def answer(self, number: int) -> None:
        self.world.answer(number % len(self.world.binds))

    @precondition(lambda self: self.world.deletes)
    @rule(number=NUMBER)
    def carry_out_deletion(self, number: int) -> None:
        self.world.carry_out_deletion(number % len(self.world.deletes))

    @precondition(lambda self: self.world.owner_deletes)
    @rule()
    def carry_out_deletion_of_owner(self) -> None:
        self.world.delete_job(self.world.owner_deletes.pop())

    @precondition(lambda self: self.world.owner_checks)
    @rule(number=NUMBER)
    def answer_for_owner(self, number: int) -> None:
        self.world.answer_owner(number % len(self.world.owner_checks))

    @precondition(lambda self: self.world.timers)
    @rule(number=NUMBER)
    def time_out(self, number: int) -> None:
        self.world.time_out(number % len(self.world.timers))

    # -- the service ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.store)
    @rule(number=NUMBER)
    def launch(self, number: int) -> None:
        self.world.launch(_pick(sorted(self.world.store), number))

    @precondition(lambda self: self.world.store)
    @rule(number=NUMBER)
    def preempt(self, number: int) -> None:
        self.world.preempt(_pick(sorted(self.world.store), number))

    @precondition(lambda self: self.world.store)
    @rule(number=NUMBER)
    def cancel(self, number: int) -> None:
        self.world.cancel(_pick(sorted(self.world.store), number))

    @rule(text=st.sampled_from(["", "a node is gone"]))
    def obstacle(self, text: str) -> None:
        self.world.obstacle_text = text

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self.world.restart(lambda: data.draw(st.booleans()))

    @rule()
    def rest(self) -> None:
        check_rest(self.world)

    def teardown(self) -> None:
        check_rest(self.world)


def _pick(names: list[str], number: int) -> str:
    return names[number % len(names)]


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
