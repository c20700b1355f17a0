"""Notices to users.

``rules`` selects events, ``messages`` writes the text, ``outbox`` stores and retries, ``sender`` delivers to channels.
"""
