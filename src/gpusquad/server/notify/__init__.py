"""Notices to people: which events matter, what they say, and their sure way out of the house.

``rules`` decides, ``messages`` writes, ``outbox`` keeps and retries, ``sender`` speaks to the channels.
"""
