"""How one card is divided, from squad to squad. A divide is ``next_squad(clients, card, effective, state)``."""
