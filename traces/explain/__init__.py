"""Why a trace fails: causes, guards, and a timeline."""
