"""Divide policies: ``next_squad(clients, card, effective, state)`` chooses the next squad of one shared card."""
