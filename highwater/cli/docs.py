"""highwater docs: print a page of the documentation that the package ships, or open it on the site."""

import os
import webbrowser
from typing import Annotated

import typer
from rich.markdown import Markdown

from highwater import pages
from highwater.cli.console import console, refuse
from highwater.messages import meant


def docs(topic: Annotated[str, typer.Argument(metavar="TOPIC", help="a page, such as tutorial [default: list all]")] = "",
         open_site: Annotated[bool, typer.Option("--open", help=f"open the page in the browser, at the site's address in "
                                                                f"{pages.SITE}")] = False) -> None:
    """Print a page of the documentation. Without TOPIC, list the topics by the question that each answers."""
    topics = pages.topics()
    page = page_of(topic, topics) if topic else pages.INDEX
    if open_site:
        address = pages.address(page)
        if not address:
            refuse(f"the site's address is unknown: set {pages.SITE}, or leave --open out to print the page")
        webbrowser.open(address)
    elif topic:
        show((pages.FOLDER / f"{page}.md").read_text())
    else:
        list_topics({page: topic for topic, page in topics.items()})


def page_of(topic: str, topics: dict[str, str]) -> str:
    """Return the page of a topic, a path (guide/tutorial) or a file (docs/guide/tutorial.md). Refuses others."""
    name = topic.removeprefix("docs/").removesuffix(".md")
    if name in topics or name in topics.values():
        return topics.get(name, name)
    if several := [page for page in topics.values() if page.endswith(f"/{name}")]:
        refuse(f"several pages have the name {topic!r}; choose {' or '.join(several)}")
    refuse(f"there is no page {topic!r}{meant(name, topics)}; `highwater docs` lists the topics")


def show(text: str) -> None:
    """Print Markdown: rendered and page by page on a terminal, as it is elsewhere."""
    if not console.is_terminal:
        console.print(text, markup=False, end="")
        return
    os.environ.setdefault("LESS", "FRX")  # as git sets it: colours, and no pager for what fits on the screen
    with console.pager(styles=True):
        console.print(Markdown(text), soft_wrap=False)


def list_topics(topic_of: dict[str, str]) -> None:
    """Print a line for each question whose page the package ships."""
    width = max(map(len, topic_of.values()))
    section = ""
    for question in pages.questions():
        page = question.links[0].removesuffix(".md")
        if page not in topic_of:
            continue
        if question.section != section:
            section = question.section
            console.print(f"\n[bold]{section}[/]")
        console.print(f"  {topic_of[page]:{width}}  {question.text}", markup=False)
    console.print("\n`highwater docs TOPIC` prints a page.", markup=False)
