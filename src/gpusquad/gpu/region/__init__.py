"""The region: the shared-memory files of a card, through which its daemon and its clients communicate."""
