"""How one card is divided, from squad to squad. A divide is ``next_squad(tenants, card, effective, state)``."""
