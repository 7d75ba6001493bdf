"""Scripts of readers of one database, impl/protocols/db_reader.py."""

from highwater.dst.script import Script

SCRIPTS: tuple[Script, ...] = ()
