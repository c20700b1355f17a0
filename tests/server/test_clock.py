"""Clock and ids: time never goes backwards."""

from gpusquad.server.clock import Clock
from gpusquad.server.ids import ALPHABET, LENGTH, new_id


def test_clock_ignores_jumps_of_the_wall_clock() -> None:
    wall_ns, passed_ns = [10**18], [0]
    clock = Clock(wall_ns=lambda: wall_ns[0], monotonic_ns=lambda: passed_ns[0])
    assert clock.now_us() == 10**15
    wall_ns[0] -= 10**17
    passed_ns[0] += 5_000_000
    assert clock.now_us() == 10**15 + 5_000


def test_clock_continues_from_the_stored_time() -> None:
    clock = Clock(wall_ns=lambda: 10**15, monotonic_ns=lambda: 0)
    clock.not_before(2 * 10**12)
    assert clock.now_us() == 2 * 10**12
    clock.not_before(5)
    assert clock.now_us() == 2 * 10**12


def test_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert all(len(new) == LENGTH and set(new) <= set(ALPHABET) for new in ids)
