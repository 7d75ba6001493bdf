"""Define what else may hold of a damaged trace of these nodes."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.nodes import OF_NODES, READ_BEFORE, contents

KNOWLEDGE = Knowledge(contents=contents, equivalences={**OF_NODES, **READ_BEFORE}, held=2)
