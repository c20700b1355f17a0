"""The memory layout of a card's region. It mirrors ``shim/region/region.h``, which defines it.

A test compiles a program that prints every offset and size and compares them with these.
"""

from __future__ import annotations

from ctypes import Structure, c_char, c_float, c_uint32, c_uint64

MAGIC = 0x47535144
VERSION = 2
SLOTS = 32
"""Clients on a card."""
PROCESSES = 16
"""Processes of a client."""
KERNELS = 256
"""Kernels in a client's table."""
SERVED = 1022
"""Reported requests before the oldest is overwritten."""

FREE, LIVE = 0, 1
LEND = 1


class GrantLayout(Structure):
    _fields_ = [
        ("state", c_uint32),
        ("squad", c_uint32),
        ("quota_bytes", c_uint64),
        ("credit_us", c_uint64),
        ("mask", c_uint64),
        ("neighbours", c_uint64),
        ("restricted_us", c_uint64),
        ("flags", c_uint32),
        ("slot_generation", c_uint32),
        ("context_bytes", c_uint64),
        ("loan_us", c_uint32),
        ("loan_wait_max_us", c_uint32),
        ("virtual_card_mask", c_uint64),
        ("linger_us", c_uint32),
        ("yield_point_us", c_uint32),
        ("yield_to", c_uint64),
        ("yield_max_ms", c_uint32),
        ("priority_level", c_uint32),
        ("reserved", c_uint64 * 3),
    ]


class DecisionsLayout(Structure):
    _fields_ = [
        ("magic", c_uint32),
        ("version", c_uint32),
        ("size", c_uint32),
        ("slots", c_uint32),
        ("heartbeat_ns", c_uint64),
        ("epoch", c_uint32),
        ("fail_open_ms", c_uint32),
        ("groups", c_uint32),
        ("sms_per_group", c_uint32),
        ("card", c_char * 48),
        ("reserved", c_uint32 * 10),
        ("grants", GrantLayout * SLOTS),
    ]


class ProcessLayout(Structure):
    _fields_ = [
        ("pid", c_uint32),
        ("state", c_uint32),
        ("used_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("context_bytes", c_uint64),
        ("requested_us", c_uint64),
        ("completed_us", c_uint64),
        ("launches", c_uint64),
        ("copies", c_uint64),
        ("graphs", c_uint64),
        ("waits", c_uint64),
        ("waited_ns", c_uint64),
        ("last_launch_ns", c_uint64),
        ("in_flight", c_uint32),
        ("waiting", c_uint32),
        ("mask_now", c_uint64),
        ("moves", c_uint64),
        ("period_us", c_uint64),
        ("iterations", c_uint64),
        ("refusals", c_uint64),
        ("idle_since_ns", c_uint64),
        ("uses_collectives", c_uint32),
        ("unused", c_uint32),
        ("reserved", c_uint64 * 12),
    ]


class KernelLayout(Structure):
    _fields_ = [
        ("identity", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared", c_uint32),
        ("count", c_uint32),
        ("mean_us", c_float),
        ("var", c_float),
        ("name", c_char * 64),
        ("sequence", c_uint32),
        ("reserved", c_uint32 * 3),
    ]


class ServedLayout(Structure):
    _fields_ = [("count", c_uint64), ("us", c_uint32 * SERVED)]


class ClientLayout(Structure):
    _fields_ = [
        ("magic", c_uint32),
        ("version", c_uint32),
        ("size", c_uint32),
        ("slot", c_uint32),
        ("used_bytes", c_uint64),
        ("kernels", c_uint32),
        ("lock", c_uint32),
        ("peak_bytes", c_uint64),
        ("reserved", c_uint32 * 22),
        ("procs", ProcessLayout * PROCESSES),
        ("kernel", KernelLayout * KERNELS),
        ("served", ServedLayout),
    ]
