"""Define what else may hold of a damaged trace of these nodes."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.nodes import OF_NODES, RESPONSES_OF_NODES, contents

KNOWLEDGE = Knowledge(contents=contents, equivalences=OF_NODES, responses=RESPONSES_OF_NODES, held=1)
