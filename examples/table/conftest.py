"""Take the protocols of this folder, as `--project` does."""

from pathlib import Path

from highwater.project import use

use(str(Path(__file__).parent))
