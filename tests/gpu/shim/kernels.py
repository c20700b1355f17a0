"""The kernels that tests launch, as PTX: a real driver compiles it, the stand-in reads the names and the lines ``//!``.

Each is given an address and a number. ``add*`` and ``copy2`` read the cell first and write it last, so that two that
overlap where they must not lose an update:

| kernel | what it does | its number |
|---|---|---|
| ``add*`` | x becomes x + 1 | microseconds that it lasts; those with a time in the name have their own |
| ``copy2`` | x becomes 3 x + 1 | microseconds that it lasts |
| ``burn`` | each block writes the SM it ran on into a cell of its own | clock cycles that every block lasts |
"""

from __future__ import annotations

_HEAD = """
.version 7.0
.target sm_70
.address_size 64
"""

_LASTING = """
//! {name}:0:{lasts}
.visible .entry {name}(.param .u64 cell, .param .u64 lasts_us)
{{
    .reg .pred %is_first, %goes_on;
    .reg .b32 %x, %thread, %block;
    .reg .b64 %cell, %lasts, %start, %now;
    mov.u64 %start, %globaltimer;
    {load_time}
    mul.lo.u64 %lasts, %lasts, 1000;
    ld.param.u64 %cell, [cell];
    cvta.to.global.u64 %cell, %cell;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    or.b32 %thread, %thread, %block;
    setp.eq.u32 %is_first, %thread, 0;
    @%is_first ld.volatile.global.u32 %x, [%cell];
spin:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %goes_on, %now, %lasts;
    @%goes_on bra spin;
    {change}
    @%is_first st.volatile.global.u32 [%cell], %x;
    ret;
}}
"""

_BURN = """
//! burn:0:*
.visible .entry burn(.param .u64 cells, .param .u64 cycles)
{
    .reg .pred %is_first, %goes_on;
    .reg .b32 %sm, %thread, %block;
    .reg .b64 %cells, %cycles, %start, %now, %offset;
    mov.u64 %start, %clock64;
    ld.param.u64 %cells, [cells];
    ld.param.u64 %cycles, [cycles];
    cvta.to.global.u64 %cells, %cells;
spin:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %goes_on, %now, %cycles;
    @%goes_on bra spin;
    mov.u32 %thread, %tid.x;
    setp.eq.u32 %is_first, %thread, 0;
    mov.u32 %block, %ctaid.x;
    mul.wide.u32 %offset, %block, 4;
    add.u64 %cells, %cells, %offset;
    mov.u32 %sm, %smid;
    @%is_first st.global.u32 [%cells], %sm;
    ret;
}
"""

_ADD, _COPY2 = "add.u32 %x, %x, 1;", "mad.lo.u32 %x, %x, 3, 1;"

KERNELS: dict[str, tuple[str, int | None]] = {
    "add": (_ADD, None),
    "copy2": (_COPY2, None),
    "add_ncclDevKernel_AllReduce_f32": (_ADD, None),
    "add_long": (_ADD, 5000),
    "add_short": (_ADD, 20),
    "add_ncclDevKernel_two_ranks": (_ADD, 20),
}
"""What each does and how many microseconds it lasts; None: its argument gives the time."""
RANKS = {"add_ncclDevKernel_two_ranks": 2}
"""On the stand-in these spin until this many of them run. On a card they do not wait."""

NAMES = (*KERNELS, "burn")


def _entry(name: str, change: str, lasts_us: int | None) -> str:
    load_time = "ld.param.u64 %lasts, [lasts_us];" if lasts_us is None else f"mov.u64 %lasts, {lasts_us};"
    lasts = "*" if lasts_us is None else str(lasts_us)
    lasts += f":{RANKS[name]}" if name in RANKS else ""
    return _LASTING.format(name=name, lasts=lasts, load_time=load_time, change=change)


PTX = (_HEAD + "".join(_entry(name, *what) for name, what in KERNELS.items()) + _BURN).strip() + "\n"
