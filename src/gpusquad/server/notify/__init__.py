"""Notices to users.

``feed`` follows the events: ``rules`` selects them, ``messages`` and ``payload`` write the notice, ``collect`` keeps it
in inboxes. ``outbox`` sends it to channels in order, ``sender`` knows the channels.
"""
