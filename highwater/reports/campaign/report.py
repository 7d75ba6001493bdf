"""Safety: the report of a campaign calls nothing safe that has failed. Without a failure it says how sure that is and what was
not tried.

The report is one file that needs no network. It contains campaign.css and the timelines of failures. It depends only on the
folders and their paths: the same folders give the same bytes. highwater/reports/campaign/figures.py reads them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.dst.campaign.folder import whole
from highwater.dst.campaign.triage import compare
from highwater.dst.campaign.what import CampaignError, Refused
from highwater.reports.campaign.figures import Figures, figures, folders
from highwater.reports.campaign.numbers import at_most, of_runs, share, sure
from highwater.reports.campaign.sections import EMBEDDED, Bundle, Place, added, counted, found_cell, level, sections, state_of
from highwater.reports.campaign.verdict import Untried, Verdict, alike, name_of, sureness, untried, untried_of_many, verdict
from highwater.reports.markup import Html, el, joined, row, table

ASSETS = Path(__file__).parent.parent / "assets"
TONES = ("bad", "found", "open", "good")  # in this order
OPEN = 3  # campaigns with failures to unfold, of many


class Report(NamedTuple):
    text: str  # HTML; links and commands in it are for `target`'s folder
    damaged: list[str]  # for each unreadable folder: why


def report(given: list[Path], against: list[Path], target: Path) -> Report:
    """Make the report of campaigns, compared with earlier ones. Raises Refused, CampaignError, OSError."""
    pairs, damaged = readable(folders(given))
    pairs.sort(key=lambda pair: (TONES.index(verdict(pair[0]).tone), -pair[0].failed, str(pair[0].out)))
    found = [f for f, _ in pairs]
    earlier = list(map(figures, folders(against)))
    if earlier and not any(alike(one, f) for one in earlier for f in found):
        raise Refused(f"{against[0]} has another scenario or mutant than {given[0]}, so nothing can be compared")
    kept = [with_states(f, [one for one in earlier if alike(one, f)], bundles) for f, bundles in pairs]
    place = Place(target, [EMBEDDED])
    if len(found) == 1 and not damaged:
        title = f"Campaign: {name_of(found[0])}"
        parts = [top_of_one(found[0]), *sections(found[0], kept[0], place)]
    else:
        title = f"{len(found)}{f' of {len(found) + len(damaged)}' if damaged else ''} campaigns"
        parts = [top_of_many(found, damaged), *unread(damaged), matrix(found)]
        for number, (f, bundles) in enumerate(zip(found, kept)):
            name = el("summary", tag(verdict(f)), " ", name_of(f), el("span", f" — {f.out.name}", class_="soft"))
            parts.append(el("details", name, el("div", top_of_one(f), *sections(f, bundles, place)), id=f"c{number}",
                            class_="campaign card", open=bool(f.failures) and number < OPEN))
    return Report(page(title, [header(title, found), *parts]), damaged)


def readable(folders: list[Path]) -> tuple[list[tuple[Figures, dict[str, Bundle]]], list[str]]:
    """Return the figures of the readable folders, and the errors of the others. Raises the first error if none is readable."""
    found: list[tuple[Figures, dict[str, Bundle]]] = []
    damaged: list[CampaignError] = []
    for out in folders:
        try:
            f = figures(out)
            found.append((f, bundles_of(f)))
        except CampaignError as error:
            damaged.append(error)
    if not found:
        raise damaged[0]
    return found, list(map(str, damaged))


def page(title: str, parts: list[Html]) -> str:
    style = "".join(ASSETS.joinpath(name).read_text() for name in ("page.css", "campaign.css"))
    metas = {"generator": "highwater campaign report", "viewport": "width=device-width, initial-scale=1",
             "color-scheme": "light dark"}
    head = el("head", el("meta", charset="utf-8"), *(el("meta", name=name, content=content) for name, content in metas.items()),
              el("title", f"highwater: {title}"), el("style", Html(style)))
    return "<!doctype html>\n" + el("html", head, el("body", el("div", *parts, class_="report")), lang="en") + "\n"


# --- the answers at the top


def header(title: str, found: list[Figures]) -> Html:
    ended_s = max(f.ended_s for f in found)
    now = f"last rows at {datetime.fromtimestamp(ended_s, UTC):%Y-%m-%d %H:%M} UTC" if ended_s else "no rows yet"
    states = sorted(set(map(state_of, found)))
    codes = sorted({f.campaign.code for f in found})
    return el("header", el("h1", title), el("span", f"{', '.join(states)}; code {', '.join(codes)}; {now}. Run the commands "
                                            "in the folder of this page.", class_="soft"))


def three(tone: str, first: tuple[str, object], second: tuple[str, object], third: Untried) -> Html:
    words = [word for word, _ in third]
    last = (", ".join(words[:3]) + ", …" * (len(words) > 3) or "Nothing", bullets(line for _, line in third))
    if not third:
        last = "Nothing", "Everything that this report looks for was reached."
    asks = ("Is it safe?", "How sure is that?", "What was not tried?")
    parts = [el("div", el("div", ask, class_="ask"), el("div", answer, class_="answer"),
                why if isinstance(why, Html) else el("p", why), class_="first" if ask == asks[0] else None)
             for ask, (answer, why) in zip(asks, (first, second, last))]
    return el("div", *parts, class_=f"verdict {tone}")


def bullets(lines: Iterable[str]) -> Html:
    return el("ul", *(el("li", line) for line in lines))


def top_of_one(f: Figures) -> Html:
    judged = verdict(f)
    return three(judged.tone, (judged.answer, judged.why), sureness(f), untried(f))


def top_of_many(found: list[Figures], damaged: list[str]) -> Html:
    real, mutants = ([f for f in found if bool(f.campaign.mutant) == of] for of in (False, True))
    bad, caught, unsure = ([f for f in found if verdict(f).tone == tone] for tone in ("bad", "found", "open"))
    said = [f"{name_of(f)}: {verdict(f).word}, {f.failed:,} of {f.judged:,} runs" for f in (*bad, *caught)][:6]
    said += [f"{name_of(f)}: {verdict(f).word}" for f in unsure][:6]
    if mutants:
        said.append(f"{len(caught)} of {len(mutants)} known-bad implementations were caught")
    if damaged:
        said.append(f"{len(damaged)} of {len(found) + len(damaged)} campaigns cannot be read")
    tone = "bad" if bad else "open" if unsure or damaged or not real else "good"
    answer = (f"Not safe: {len(bad)} of {len(real)}" if bad else
              f"{len(unsure)} of {len(found)} campaigns are open" if unsure else
              f"{len(damaged)} of {len(found) + len(damaged)} campaigns cannot be read" if damaged else
              f"No failure in {len(real)} implementation{'s' * (len(real) > 1)}" if real else "No implementation has run")
    return three(tone, (answer, bullets(said)), sureness_of_many(real, bad), untried_of_many(found))


def sureness_of_many(real: list[Figures], bad: list[Figures]) -> tuple[str, str]:
    """Say how sure the verdict on many campaigns is: that of the worst, else of the least sure without a failure."""
    if bad:
        words, why = sureness(bad[0])
        return words, f"{name_of(bad[0])}: {why} The others are in the table."
    clean = [f for f in real if f.judged]
    if not clean:
        return "Not at all", "No run of a real implementation was judged."
    least = min(clean, key=lambda f: f.judged)
    return f"At most {of_runs(share(at_most(least.judged)))}", (
        f"A 95 % bound for runs drawn like these, in each of {len(clean)} campaigns without a failure. The least sure is "
        f"{name_of(least)}: 0 of {least.judged:,} failed. It says nothing about what is never drawn.")


def unread(damaged: list[str]) -> list[Html]:
    said = el("section", el("h2", "Campaigns that cannot be read, and are not counted"), bullets(damaged), class_="card")
    return [said] if damaged else []


def tag(judged: Verdict) -> Html:
    return el("span", judged.word, class_=f"tag {judged.tone}")


def matrix(found: list[Figures]) -> Html:
    """Make the table of campaigns, one row each."""
    strategies = sorted({cell.strategy for f in found for cell in f.cells if cell.strategy})
    more = {name: of for name, of in (("left", lambda f: f.left), ("unjudged", lambda f: f.unjudged)) if any(map(of, found))}
    rows = []
    for number, f in enumerate(found):
        cells = added(f.cells, "strategy")
        never = "?" if f.witnesses is None else sum(1 for runs, _ in f.witnesses.values() if not runs)
        rows.append(row(tag(verdict(f)),
                        joined(el("a", f.campaign.scenario, href=f"#c{number}"), el("span", f.out.name, class_="sub")),
                        f.campaign.mutant or "—",
                        joined(counted(f.failed, f.judged), el("span", sure(f.failed, f.judged), class_="sub")),
                        *(found_cell(cells[of]) if of in cells else el("td", "·", class_="not") for of in strategies),
                        *(f"{of(f):,}" for of in more.values()), never, level(f.states), class_=verdict(f).tone))
    head = ["verdict", "scenario", "mutant", "failed/all, 95 %", *strategies, *more, "never reached", "coverage"]
    return el("section", el("h2", "All campaigns, the worst first: failed runs by strategy"),
              table(head, rows, class_="grid"), class_="card")


# --- what triage has kept, and what earlier campaigns found

def bundles_of(f: Figures) -> dict[str, Bundle]:
    """Return the triaged bundles by signature; none without triage. Raises CampaignError for a damaged triage.json."""
    found = {}
    file, mend = f.out / "triage.json", f"`highwater campaign triage {f.out}{project.option()}` writes it anew"
    try:
        for failure in whole(file, ("failures",), mend).get("failures", []):
            folder = failure.get("bundle", "")
            found[failure["signature"]] = Bundle(failure["state"], folder, failure.get("requests", ""),
                                             *(text_of(f.out / folder / f"shrunk.{name}") if folder else ""
                                               for name in ("report.txt", "timeline.html")))
    except (AttributeError, KeyError, TypeError):
        raise CampaignError(f"{file} is damaged: {mend}") from None
    return found


def text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def with_states(f: Figures, earlier: list[Figures], bundles: dict[str, Bundle]) -> dict[str, Bundle]:
    """Set each bundle's state (new, known, gone) by these earlier campaigns, if given; else keep triage's."""
    if not earlier:
        return bundles
    found = {}
    for one in compare(as_summary(f), list(map(as_summary, earlier))):
        found[one.signature] = bundles.get(one.signature, Bundle(""))._replace(state=one.state)
    return found


def as_summary(f: Figures) -> dict:
    return {**f.campaign._asdict(), "failures": [{"signature": failure.signature} for failure in f.failures]}
