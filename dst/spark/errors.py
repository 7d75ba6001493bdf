"""Report an error of Spark in one line: its cause, and the name of a file with the rest."""

import re
from tempfile import mkstemp

PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
CAUSED = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
OF_CALL = re.compile(r"^: (.+)$", re.MULTILINE)  # after "An error occurred while calling .."
MOST_LETTERS = 300  # of a line


def report(error: Exception) -> str:
    """Return the cause of an error in one line. If the error has more lines, they are in a file that the line names."""
    text = str(error)
    if "\n" not in text.strip():
        return text.strip()[:MOST_LETTERS] or type(error).__name__
    number, file = mkstemp(prefix="highwater-spark-", suffix=".txt")
    with open(number, "w", errors="backslashreplace") as out:
        out.write(text)
    return f"{cause(text)} (all of it: {file})"


def cause(text: str) -> str:
    """Return the cause: the exception of Python in a worker, else Java's with its innermost cause, else the first line."""
    found = PYTHON.findall(text)[-1:] or [*OF_CALL.findall(text)[:1], *CAUSED.findall(text)[-1:]]
    return "; caused by ".join(line[:MOST_LETTERS] for line in found or [text.strip().partition("\n")[0]])
