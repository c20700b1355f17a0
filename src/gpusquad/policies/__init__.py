"""What can be chosen: who is next, who may go first, on which cards."""
