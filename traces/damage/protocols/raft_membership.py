"""Define what else may hold of a damaged trace of these nodes."""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.nodes import OF_NODES, READ_BEFORE, READS_OF_NODES, RESPONSES_OF_NODES, contents

KNOWLEDGE = Knowledge(contents=contents, equivalences={**OF_NODES, **READ_BEFORE},
                      responses={**RESPONSES_OF_NODES, **READS_OF_NODES}, held=2)
