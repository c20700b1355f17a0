"""Tables and texts that the verbs print."""
