"""Who may go first: which waiting gangs hold a promise, and who may slip in before them."""
