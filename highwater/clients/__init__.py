"""Try a client of an object store, in any language, with faults at each of its requests, and judge its commits."""
