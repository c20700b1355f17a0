"""Tenants on real cards: each card's daemon and MPS pool, and what a process or container is told to keep to its part.

``quota.SquadQuota`` is what an engine or agent uses; ``settings.Settings`` is all that can be chosen; one
``manager.CardKeeper`` looks after each card. Cards that are only simulated have none of this.
"""
