"""Ask FizzBee by hand: python -m highwater.specs.fizzbee check|graph|guided FILE.fizz [--set NAME=VALUE ...]"""

import argparse
import ast
import json
import signal
import sys
from pathlib import Path

from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzError
from highwater.specs.fizzbee.files import Graph
from highwater.specs.fizzbee.verdict import CheckResult


def setting(text: str) -> tuple[str, object]:
    """NAME=VALUE of --set; VALUE is a Python literal."""
    name, equals, value = text.partition("=")
    try:
        if not (equals and name.isidentifier()):
            raise ValueError
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a Python literal, like N=3 or CHECK=False") from None


def print_check(result: CheckResult) -> int:
    """Shows a verdict and its trace; 0 for PASSED, 1 for a failure, 3 for an error."""
    print(f"{result.verdict}: {result.states} states, {result.nodes} nodes, {result.seconds:.1f} s"
          + (f": {', '.join(result.failed_assertions)}" if result.failed_assertions else ""))
    before: dict = {}
    for name, state in result.trace:
        print(f"  {name}")
        for key in state:
            if key not in before or before[key] != state[key]:
                print(f"      {key} = {json.dumps(state[key])}")
        before = state
    if result.error:
        print(result.error)
    return 0 if result.verdict == "PASSED" else 3 if result.verdict == "ERROR" else 1


def print_graph(graph: Graph) -> int:
    """Shows how many states and edges there are, by action."""
    print(f"{len(graph.states)} states, {len(graph.edges)} edges")
    actions: dict[str, int] = {}
    for _, (role, action, _), _ in graph.edges:
        name = f"{role.partition('#')[0]}.{action}" if role else action
        actions[name] = actions.get(name, 0) + 1
    for name in sorted(actions):
        print(f"  {actions[name]:8} {name}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """python -m highwater.specs.fizzbee check|graph|guided FILE.fizz [--set NAME=VALUE ...]"""
    parser = argparse.ArgumentParser(prog="python -m highwater.specs.fizzbee", description=main.__doc__)
    parser.add_argument("verb", choices=["check", "graph", "guided"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--set", dest="constants", type=setting, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--only", action="append", metavar="ASSERTION", help="check: leave out all others; may be repeated")
    parser.add_argument("--trace", type=Path, help="guided: a file with a link name on each line")
    parser.add_argument("--timeout", type=float, metavar="SECONDS")
    asked = parser.parse_args(arguments)
    constants = dict(asked.constants)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the checker ends and its scratch folder goes
    try:
        fizz = Fizz.find()
        if asked.verb == "graph":
            return print_graph(fizz.graph(asked.file, constants, timeout=asked.timeout))
        if asked.verb == "check":
            return print_check(fizz.check(asked.file, constants, only=asked.only, timeout=asked.timeout))
        if not asked.trace:
            parser.error("guided needs --trace FILE")
        links = [line for line in asked.trace.read_text().splitlines() if line.strip() and not line.startswith("#")]
        result = fizz.guided(asked.file, constants, links, timeout=asked.timeout)
        print(f"followed {result.followed} of {len(links)} links")
        return print_check(result)
    except (FizzError, OSError) as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
