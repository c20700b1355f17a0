"""The files through which a card's daemon and its tenants speak: their layout, and what each may read and write."""
