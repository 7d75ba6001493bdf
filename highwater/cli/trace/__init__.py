"""highwater trace: check, damage, record."""
