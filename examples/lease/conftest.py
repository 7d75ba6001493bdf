"""Take the protocols of this folder, as `--project` does."""

from pathlib import Path

from highwater import project

project.use(str(Path(__file__).parent))
