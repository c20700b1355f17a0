"""Tables and texts printed by the verbs."""
