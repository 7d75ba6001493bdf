"""Scripts of selectors: how a query is read, what is refused, and which label sets satisfy it."""

from highwater.dst.script import Alone, Script, fails_with, same
from highwater.dst.scripts.indexed.one import says
from highwater.impl.codecs.index import regexes
from highwater.impl.codecs.index.regexes import InvalidRegex, matcher_of
from highwater.impl.index.query.matching import COMPAT, PROMETHEUS, holding, label_sets
from highwater.impl.index.query.selector import InvalidSelector, Matcher, parse


async def selectors_are_read(alone: Alone) -> None:
    for text, matchers in (
            ("m", [("__name__", "=", "m")]), (" sum { } # all", [("__name__", "=", "sum")]), ("a:b9", [("__name__", "=",
                "a:b9")]),
            ('{"m"}', [("__name__", "=", "m")]), ('{"a.b"=\'c\'}', [("a.b", "=", "c")]), ("{a=`\\n\n`}", [("a", "=", "\\n\n")]),
            ('{on="\\x41\\101\\u00e9\\U0001F600\\n\\a\\b\\f\\r\\t\\v\\\\\\""}', [("on", "=",
                "AA\u00e9\U0001F600\n\a\b\f\r\t\v\\\"")]),
            ('{a="\\xc3\\xa9"}', [("a", "=", "\u00e9")]), ("{a!~'\\'',}", [("a", "!~", "'")]), ('{a="\\xff"}', [("a", "=",
                "\udcff")]),
            ('m{__name__="n"}', [("__name__", "=", "n"), ("__name__", "=", "m")]), ('{a#x\n="b" #y\n}', [("a", "=", "b")]),
            ('{a="b",c!="d" , e=~"f",g!~"h"}', [("a", "=", "b"), ("c", "!=", "d"), ("e", "=~", "f"), ("g", "!~", "h")]), ("{}",
                []),
            ('{a="\\377\\ud7ff\\ue000\\U0010FFFF"}', [("a", "=", "\udcff\ud7ff\ue000\U0010FFFF")])):
        same(parse(text), tuple(Matcher(*of) for of in matchers), text)
    same(str(Matcher("a", "=", 'x"\\')), '"a" = "x\\"\\\\"')


async def what_is_no_selector_is_refused(alone: Alone) -> None:
    for text, found, wanted in (
            ("", "the end at position 0", "a metric's name or an opening brace"), ("{", "the end at position 1",
                                                                                 "a label's name or a closing brace"),
            ("{}x", "'x' at position 2", "the end of the selector"), ("m[5m]", "'[' at position 1", "the end of the selector"),
            ("bool", "'b' at position 0", "a metric's name or an opening brace, and 'bool' is a word of queries,"),
            (" INF{}", "'I' at position 1", "a metric's name or an opening brace, and 'INF' is a word of queries,"),
            ("{a}", "'}' at position 2", "one of = != =~ !~"), ('{a:b="c"}', "':' at position 2", "one of = != =~ !~"),
            ('{a="b" b="c"}', "'b' at position 7", "a comma or a closing brace"), ("{,}", "',' at position 1",
                                                                                  "a label's name or a closing brace"),
            ('{a="b",,}', "',' at position 7", "a label's name or a closing brace"), ("{a=b}", "'b' at position 3",
                                                                                     "a text in quotes"),
            ('{a=="b"}', "'=' at position 3", "a text in quotes"), ('{a="b}', "the end at position 6",
                                                                    "the end of the text in quotes"),
            ('{a="\n"}', "'\\n' at position 4", "the end of the text in quotes"), ('{a="\\q"}', "'q' at position 5",
                "an escape of Go"),
            ('{a="\\400"}', "'4' at position 5", "the escape of a byte or of a character"), ('{a="\\', "the end at position 5",
                                                                                          "an escape of Go"),
            ('{a="\\ud800"}', "'u' at position 5", "the escape of a byte or of a character"),
            ('{a="\\udfff"}', "'u' at position 5", "the escape of a byte or of a character"),
            ('{a="\\U00110000"}', "'U' at position 5", "the escape of a byte or of a character"),
            ('{a="\ufffd"}', "'\ufffd' at position 4", "a character"), ("{a=`\ufffd`}", "'\ufffd' at position 4",
                "a character"),
            ("{a=~", "the end at position 4", "a text in quotes"), ("{a='\\\"'}", "'\"' at position 5", "an escape of Go")):
        says(InvalidSelector, f"the query {text!r} has {found}, where {wanted} has to be", lambda text=text: parse(text))
    for text in ('{a=~"("}', '{a!~"(?=b)"}', '{a=~"\\\\C"}'):
        fails_with(InvalidSelector, lambda text=text: parse(text))
    for word in ("atan2", "bool", "group_left", "group_right", "ignoring", "inf", "nan", "on"):
        fails_with(InvalidSelector, lambda word=word: parse(word.upper()))


async def expressions_are_those_of_re2(alone: Alone) -> None:
    matcher_of.cache_clear()
    for expression, text, right in (
            ("a.c", "a\nc", True), ("a", "ab", False), ("a", "ba", False), ("(?i)A", "a", True), ("a|b", "b", True), ("", "",
                True),
            ("x|\udcff", "\udcff", True), ("x|\udcff", "x", True), ("x|\udcff", "x|", False), (".", "\udcff\udcfe", False),
            (r"\Qa\C\E", "a\\C", True), (r"\\C", "\\C", True), ("é.", "éx", True), (r"\Qa\E.", "ab", True)):
        same(matcher_of(expression)(text), right, f"{expression!r} of {text!r}")
    same(matcher_of("(a*)*" * 20 + "b")("a" * 2_000), False)
    for expression, text in ((r"a\C", r"the expression 'a\\C' has \C at 1, which is no character"),
                             ("\udcff.", "the expression '\\udcff.' is not UTF-8")):
        says(InvalidRegex, text, lambda expression=expression: matcher_of(expression))
    for expression in ("(?=a)", "a**", "x{1001}", r"\1", r"\E\C", r"\Qa\E\C"):
        fails_with(InvalidRegex, lambda expression=expression: matcher_of(expression))
    try:
        matcher_of("(")
    except InvalidRegex as error:
        same(str(error), "the expression '(': missing ): (")
    same([regexes.single_byte(of) for of in ("", "C", "\\", r"\C", r"ab\C", r"\\C", r"\Q\C", r"\Q\C\E\C", r"\Q\E\C",
                                             r"\Q\Q\E\C")],
         [None, None, None, 0, 2, None, None, 6, 4, 6])
    made = regexes.options()
    same((made.dot_nl, made.log_errors), (True, False))


def holds(text: str, labels: tuple[tuple[str, str], ...], semantics: str) -> bool:
    strings = ["", *dict.fromkeys(of for pair in labels for of in pair if of)]
    index = {of: number for number, of in enumerate(strings)}
    sets = label_sets([tuple((index[name], index[value]) for name, value in labels)])
    return bool(holding(sets, parse(text), strings, index, semantics)[0])


async def the_two_meanings_differ_where_a_label_is_missing(alone: Alone) -> None:
    cd, ax = (("c", "d"),), (("a", "x"),)
    for text, labels, compat, prometheus in (
            ('{a=""}', cd, False, True), ('{a=""}', (("a", ""),), True, True), ('{a=~".*"}', cd, False, True),
            ('{a!=""}', cd, True, False), ('{a!~".+"}', cd, True, True), ('{a!="x"}', cd, True, True), ('{a!="x"}', ax, False,
                False),
            ('{a="x"}', (("a", "x"), ("a", "y")), True, True), ('{a="y"}', (("a", "x"), ("a", "y")), False, False),
            ("{}", (), True, True), ('{""="x"}', (("a", "b"),), True, False), ("m{}", (("__name__", "m"),), True, True),
            ('{a=~"x"}', (("a", "xx"),), False, False), ('{a=~"x|y",b!="z"}', (("a", "y"), ("b", "z")), False, False),
            ('{a=~"x|y",b!="z"}', (("a", "y"), ("b", "v")), True, True), ('{a!~"x"}', ax, False, False),
            ('{a=~"x"}', ax, True, True), ('{a="x",b="x"}', ax, False, False), ('{a=~"none"}', ax, False, False)):
        same((holds(text, labels, COMPAT), holds(text, labels, PROMETHEUS)), (compat, prometheus), f"{text} of {labels}")


async def several_sets_are_matched_at_once(alone: Alone) -> None:
    strings = ["", "a", "b", "x", "y"]
    index = {of: number for number, of in enumerate(strings)}
    sets = label_sets([((1, 3),), ((1, 4), (2, 3)), ((2, 4),), (), ((1, 4), (1, 3))])
    same([[of.tolist() for of in sets.of_name(name)] for name in (0, 1, 2, 3)],
         [[[], []], [[0, 1, 4], [3, 4, 4]], [[1, 2], [3, 4]], [[], []]])
    same((len(sets.sets), len(sets.names), len(label_sets([]).names)), (5, 5, 0))
    for text, compat, prometheus in (
            ('{a="x"}', "10000", "10000"), ('{a!="x"}', "01111", "01111"), ('{a=~"x|y"}', "11001", "11001"),
            ('{a!~"y"}', "10110", "10110"), ('{a=~".*"}', "11001", "11111"), ('{a="z"}', "00000", "00000"),
            ('{b="x",a="y"}', "01000", "01000"), ('{z!="x"}', "11111", "11111"), ('{z=""}', "00000", "11111"),
            ('{a!=""}', "11111", "11001")):
        for semantics, right in ((COMPAT, compat), (PROMETHEUS, prometheus)):
            found = holding(sets, parse(text), strings, index, semantics)
            same("".join(str(int(one)) for one in found.tolist()), right, f"{text} as {semantics}")


SCRIPTS: tuple[Script, ...] = (
    selectors_are_read, what_is_no_selector_is_refused, expressions_are_those_of_re2,
    the_two_meanings_differ_where_a_label_is_missing, several_sets_are_matched_at_once)
