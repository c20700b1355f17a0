"""All anti-affinity terms, indexed by the labels that they match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpusquad.engines.kubernetes.filters.pod_affinity import Term
from gpusquad.engines.kubernetes.filters.selectors import Labels


class TermLookup:
    """Each term is stored under one label that it requires, so that only candidates are checked for a pod."""

    def __init__(self) -> None:
        self._uses: Counter[Term] = Counter()
        self._by_label: dict[tuple[str, str], set[Term]] = {}
        self._others: set[Term] = set()

    def __iter__(self) -> Iterator[Term]:
        return iter(self._uses)

    def replace(self, old: tuple[Term, ...], new: tuple[Term, ...]) -> tuple[Term, ...]:
        """Replaces the terms of one pod. Returns the terms that no pod had before."""
        if old == new:
            return ()
        fresh = tuple(term for term in new if term not in self._uses)
        for term in fresh:
            self._file(term)
        self._uses.update(new)
        self._uses.subtract(old)
        for term in old:
            if not self._uses[term]:
                self._unfile(term)
        return fresh

    def matching(self, labels: Labels, namespace: str, namespace_labels: Labels) -> tuple[Term, ...]:
        found = {term for term in self._candidates(labels) if term.matches(labels, namespace, namespace_labels)}
        return tuple(sorted(found))

    def _candidates(self, labels: Labels) -> Iterator[Term]:
        yield from self._others
        for item in labels.items():
            yield from self._by_label.get(item, ())

    def _file(self, term: Term) -> None:
        anchor = term.selector.anchor()
        if anchor is None:
            self._others.add(term)
            return
        for value in anchor.values:
            self._by_label.setdefault((anchor.key, value), set()).add(term)

    def _unfile(self, term: Term) -> None:
        del self._uses[term]
        anchor = term.selector.anchor()
        if anchor is None:
            self._others.discard(term)
            return
        for value in anchor.values:
            filed = self._by_label[anchor.key, value]
            filed.discard(term)
            if not filed:
                del self._by_label[anchor.key, value]
