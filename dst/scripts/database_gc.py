"""Scripts of collectors, impl/protocols/database_gc.py, and of SSTs as objects, impl/protocols/database_gc_uploads.py."""

from highwater.dst.script import Script

SCRIPTS: tuple[Script, ...] = ()
