"""GPU clients on real cards: each card's daemon and MPS pool, and what a process or container needs for its share.

Engines and agents use ``quota.SquadQuota``. ``settings.CardSharingSettings`` has the options. One
``card_manager.CardManager`` manages each card. Simulated cards have none of this.
"""
