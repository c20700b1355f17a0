"""Errors of the store, independent of the database."""

from __future__ import annotations


class StoreUnavailable(RuntimeError):
    """The database cannot be reached or cannot write now (stopped, locked, disk full). A later retry may succeed.

    The write did not happen, with one exception: if the connection breaks during the commit, the result is unknown. A
    caller that retries a write must check first.
    """


class StoreInUse(RuntimeError):
    """Another server owns the database."""


class StoreTooNew(RuntimeError):
    """A newer gpusquad changed the schema; this version cannot read it."""


class StoreConflict(RuntimeError):
    """The row already exists, or it refers to a row that does not."""
