"""Disjoint sets (union by size, path halving). scipy has them too, in a module that takes 0.2 s to
import."""

from collections.abc import Hashable, Iterable


class DisjointSets:
    """Sets of the given elements, each alone at first. An element that was not given is a
    KeyError."""

    def __init__(self, elements: Iterable[Hashable]):
        self._parent: dict[Hashable, Hashable] = {element: element for element in elements}
        self._size = dict.fromkeys(self._parent, 1)
        self.count = len(self._parent)

    def find(self, element: Hashable) -> Hashable:
        """The element that stands for the set of this one."""
        parent = self._parent
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    def merge(self, a: Hashable, b: Hashable) -> bool:
        """Join the sets of a and b; False if they were one set already."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self._size[a] < self._size[b]:
            a, b = b, a
        self._parent[b] = a
        self._size[a] += self._size.pop(b)
        self.count -= 1
        return True

    def connected(self, a: Hashable, b: Hashable) -> bool:
        return self.find(a) == self.find(b)

    def size(self, element: Hashable) -> int:
        """The number of elements in the set of `element`."""
        return self._size[self.find(element)]
