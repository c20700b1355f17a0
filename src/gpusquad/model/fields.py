"""Reads plain dictionaries from outside with checks. Errors give the full path of the field."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from gpusquad.model.errors import Invalid
from gpusquad.model.priority import DEFAULT_PRIORITY, priority_text
from gpusquad.model.units import US_PER_S, number, parse_bytes, parse_milli, parse_us, whole

MAX_TEXT = 256
MAX_NUMBER = 2**53
"""Largest number below which a float holds every integer."""
MAX_US = 2**51 - 1
"""71 years: up to it, seconds as a float keep every microsecond."""
MAX_CORES = 1_000_000
MAX_AMOUNTS = 256
CPU_MILLI = 1000


class Fields:
    """The fields of one object, with its path."""

    def __init__(self, data: object, where: str, known: Collection[str]) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise Invalid(where or "data", f"expected named fields, got {_short(data)}")
        for name, value in data.items():
            if name not in known:
                raise Invalid(self.at(str(name)[:MAX_TEXT]), "is not a known field", _cure(name, known))
            _check_size(value, self.at(name))
        self._data = data

    def at(self, name: str) -> str:
        """The full path of a field."""
        return f"{self.where}.{name}" if self.where else name

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def raw(self, name: str) -> object:
        return self._data.get(name)

    def text(self, name: str, default: str = "", *, required: bool = False) -> str:
        if name not in self:
            if required:
                raise Invalid(self.at(name), "is missing")
            return default
        return checked_text(self.raw(name), self.at(name), may_be_empty=not required)

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise Invalid(self.at(name), f"{value!r} is not one of {', '.join(choices)}", _meant(value, choices))
        return value

    def priority(self, name: str) -> str:
        """A priority class by name or number."""
        return priority_text(self.raw(name), self.at(name)) if name in self else DEFAULT_PRIORITY

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Invalid(self.at(name), f"expected true or false, got {_short(value)}")
        return value

    def whole(self, name: str, default: int, *, low: int = 0, high: int, cure: str = "") -> int:
        if name not in self:
            return default
        try:
            return whole(self.raw(name), self.at(name), low=low, high=high)
        except Invalid as error:
            raise Invalid(error.field, error.problem, error.cure or cure) from None

    def optional_whole(self, name: str, *, low: int = 0, high: int) -> int | None:
        return self.whole(name, 0, low=low, high=high) if name in self else None

    def optional_us(self, name: str) -> int | None:
        """A time, in seconds or with a unit, as microseconds."""
        if name not in self:
            return None
        value = parse_us(self.raw(name), self.at(name))
        if value > MAX_US:
            raise Invalid(self.at(name), f"{_short(self.raw(name))} is more than {MAX_US // US_PER_S} seconds")
        return value

    def us(self, name: str, default: int = 0) -> int:
        value = self.optional_us(name)
        return default if value is None else value

    def bytes(self, name: str, default: int = 0) -> int:
        return parse_bytes(self.raw(name), self.at(name)) if name in self else default

    def milli(self, name: str) -> int:
        """A fraction of one card in thousandths; 0 stays 0."""
        value = self.raw(name)
        if value is None or (value == 0 and not isinstance(value, bool)):
            return 0
        return parse_milli(value, self.at(name))

    def bytes_or_milli(self, name: str) -> tuple[int, int]:
        """Memory of a card as an amount (``10GiB``) or a percentage; the other value is 0."""
        value = self.raw(name)
        if isinstance(value, str) and value.rstrip().endswith("%"):
            return 0, parse_milli(value, self.at(name))
        amount, ratio = self.bytes(name), _ratio_of(value)
        if ratio is not None:
            cure = f"for a part of the card write {ratio * 100:g}%"
            raise Invalid(self.at(name), f"{_short(value)} is not a number of bytes", cure)
        return amount, 0

    def cpu_milli(self, name: str, default: int = 0) -> int:
        """Cores (``0.5``) or thousandths of one (``500m``)."""
        value = self.raw(name)
        if value is None:
            return default
        milli = _cores(value, self.at(name))
        result = round(milli)
        if result < 1 and milli > 0:
            raise Invalid(self.at(name), f"{_short(value)} is less than a thousandth of a core", "write 500m or 0.5")
        return result

    def ratio(self, name: str, default: float | None = None) -> float | None:
        """From 0 to 1, or a percentage."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().endswith("%"):
            value = _plain(value.strip()[:-1], self.at(name), "0.25 or 25%") / 100
        return number(value, self.at(name), high=1.0)

    def per_s(self, name: str) -> float | None:
        """A positive rate per second (``5`` or ``5/s``)."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, str):
            value = _plain(value.strip().removesuffix("/s"), self.at(name), "5 or 5/s (per second)")
        value = number(value, self.at(name))
        if value == 0:
            raise Invalid(self.at(name), "is zero", "omit it if there is no SLO")
        return value

    def rows(self, name: str, most: int) -> list[object]:
        """A non-empty list of at most ``most`` entries."""
        value = self.raw(name)
        if not isinstance(value, (list, tuple)):
            raise Invalid(self.at(name), f"expected a list, got {_short(value)}")
        if not value:
            raise Invalid(self.at(name), "is empty", "give at least one, or omit the field")
        if len(value) > most:
            raise Invalid(self.at(name), f"has {len(value)} entries, more than {most}")
        return list(value)

    def amounts(self, name: str) -> tuple[tuple[str, int], ...]:
        """Names with positive amounts."""
        if name not in self:
            return ()
        value = self.raw(name)
        if not isinstance(value, dict) or len(value) > MAX_AMOUNTS:
            raise Invalid(self.at(name), f"expected names with numbers, at most {MAX_AMOUNTS}, got {_short(value)}")
        inner = Fields(value, self.at(name), value.keys())
        names = sorted(checked_text(each, self.at(name)) for each in value)
        return tuple((each, inner.whole(each, 0, low=1, high=MAX_NUMBER)) for each in names)

    def version(self) -> None:
        """The format's version, where a file gives one."""
        if "version" in self and self.whole("version", 1, high=2**31) != 1:
            raise Invalid(self.at("version"), f"{self.raw('version')} is unknown", "write version: 1")


def checked_text(value: object, field: str, *, may_be_empty: bool = False) -> str:
    """A short text that can be printed on one line."""
    if not isinstance(value, str):
        raise Invalid(field, f"expected text, got {_short(value)}", "put it in quotes")
    if not value and not may_be_empty:
        raise Invalid(field, "is empty")
    if len(value) > MAX_TEXT:
        raise Invalid(field, f"has {len(value)} characters", f"keep it to {MAX_TEXT}")
    if not value.isprintable():
        raise Invalid(field, f"{_short(value)} contains characters that cannot be printed")
    return value


def seconds(us: int) -> int | float:
    """Microseconds as seconds, as an integer if possible."""
    return us // US_PER_S if us % US_PER_S == 0 else us / US_PER_S


def cores(milli: int) -> int | float:
    return milli // CPU_MILLI if milli % CPU_MILLI == 0 else milli / CPU_MILLI


def _check_size(value: object, field: str) -> None:
    """Refuse values that would make later steps slow or messages long."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise Invalid(field, f"has {len(value)} characters", f"keep it to {MAX_TEXT}")
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise Invalid(field, f"is larger than {MAX_NUMBER}")


def _cores(value: object, field: str) -> float:
    if isinstance(value, str):
        text = value.strip()
        if text.endswith("m"):
            return number(_plain(text[:-1], field, "500m or 0.5"), field, high=MAX_CORES * CPU_MILLI)
        value = _plain(text, field, "500m or 0.5")
    return number(value, field, high=MAX_CORES) * CPU_MILLI


def _plain(text: str, field: str, example: str) -> float:
    try:
        return float(text.replace("_", "?"))  # Python reads 1_000; units here do not allow it
    except ValueError:
        raise Invalid(field, f"cannot read {_short(text)}", f"write for example {example}") from None


def _cure(name: object, known: Collection[str]) -> str:
    return _meant(str(name), known) or f"known here: {', '.join(known)}"


def _meant(name: str, known: Collection[str]) -> str:
    # Only the start is compared: the search is quadratic and the name comes from outside.
    close = get_close_matches(name[:64].lower(), known, 1)
    return f"did you mean {close[0]!r}?" if close else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _ratio_of(value: object) -> float | None:
    """The value if it is written like a ratio (``0.3``, ``1.0``) and not like a count."""
    if not isinstance(value, (float, str)) or "." not in str(value):
        return None
    try:
        ratio = float(value)
    except ValueError:  # it has a unit
        return None
    return ratio if 0 < ratio <= 1 else None
