"""The world interface, the errors, the layout of keys, and the protocols, codecs and stores built on them."""

if __name__ != "highwater.impl":
    raise ImportError("this package is highwater.impl: write `import highwater.impl` in place of `import impl`")

from highwater.impl.errors import Definite, Indefinite, StoreError
from highwater.impl.world import Entry, Object, ObjectStore, Page, World

__all__ = ["Definite", "Entry", "Indefinite", "Object", "ObjectStore", "Page", "StoreError", "World"]
