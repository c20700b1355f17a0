"""What can go wrong with the database, without a word of SQL: callers need not know which one it is."""

from __future__ import annotations


class StoreUnavailable(RuntimeError):
    """The database cannot be reached or cannot write now (stopped, locked, disk full). Trying again later may work.

    A write that ends so is not there, with one exception: a connection that breaks during the commit itself leaves it
    unknown, so whoever repeats a write looks first.
    """


class StoreInUse(RuntimeError):
    """Another server owns the database."""


class StoreTooNew(RuntimeError):
    """A newer gpusquad has changed the schema; this one would not understand it."""


class StoreConflict(RuntimeError):
    """The row is already there, or it names another row that is not."""
