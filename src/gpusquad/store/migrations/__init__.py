"""Steps from one schema to the next, in ``versions/``.

A new step is a file there, numbered on, with ``revision``, ``down_revision`` (the one before) and ``upgrade()``. It
works on both databases, and one that is released is never edited. ``tests/store/test_migrations.py`` says what is still
missing between the steps and ``tables.py``.
"""
