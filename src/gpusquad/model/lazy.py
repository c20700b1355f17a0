"""A cached property without the lock of ``functools.cached_property``, which would cost more than the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):
    """Stores the value in the instance's dict under the same name, so that later accesses find it there."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        if instance is None:
            return self
        value = self._work_out(instance)
        instance.__dict__[self._name] = value
        return value
