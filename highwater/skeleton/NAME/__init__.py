"""The protocol NAME. CHANGE: say in one sentence what it is safe to rely on."""
