"""Markdown that people and models write, as HTML that cannot do harm.

Three steps, each enough to keep a script out: markdown-it leaves raw HTML as text,
Pygments marks code with classes, nh3 lets only known elements and addresses through.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

#: Characters beyond which text is shown as it is: parsing costs more than it helps.
LARGEST = 400_000
LARGEST_CODE = 100_000

# fmt: off
ELEMENTS = frozenset((
    "a", "blockquote", "br", "button", "code", "dd", "del", "div", "dl", "dt", "em",
    "figcaption", "figure", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
))
# fmt: on
ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "th": {"data-align", "scope"},
    "td": {"data-align"},
    "code": {"class"},
    "span": {"class"},
    "div": {"class"},
    "figure": {"class"},
    "pre": {"class", "tabindex"},
    "button": {"class", "type", "data-copy"},
}
SCHEMES = frozenset({"http", "https", "mailto"})

_formatter: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
_cleaner = nh3.Cleaner(
    tags=set(ELEMENTS),
    attributes={name: set(allowed) for name, allowed in ATTRIBUTES.items()},
    url_schemes=set(SCHEMES),
    link_rel="noopener noreferrer nofollow",
)


class Renderer(RendererHTML):
    """Headings below the page's own, code with a copy button, images as links."""

    def heading_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<{tokens[index].tag}>"

    def heading_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"</{tokens[index].tag}>\n"

    def fence(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        words = tokens[index].info.split()
        return code_block(tokens[index].content, words[0] if words else "")

    def code_block(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return code_block(tokens[index].content, "")

    def image(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        """A picture elsewhere would tell its server who reads; a link does not."""
        address = html.escape(str(tokens[index].attrs.get("src", "")))
        label = html.escape(tokens[index].content or "image")
        return f'<a href="{address}">{label}</a>'

    def table_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return '<div class="table-scroll"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "</table></div>\n"

    def th_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f'<th scope="col"{_alignment(tokens[index])}>'

    def td_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<td{_alignment(tokens[index])}>"


def _nest_headings(tokens: Sequence[Token]) -> None:
    """Begin below the page's own headings, and never skip a level on the way down."""
    above: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            above = [*(one for one in above if one < level), level]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, 2 + len(above))}"


def _alignment(cell: Token) -> str:
    style = str(cell.attrs.get("style", ""))
    side = style.removeprefix("text-align:")
    return f' data-align="{side}"' if side in {"right", "center"} else ""


def code_block(code: str, language: str) -> str:
    """Highlighted code under a line with its language and a button to copy it."""
    label = html.escape(language[:40])
    return (
        '<figure class="code"><figcaption>'
        f'<span>{label}</span><button type="button" class="copy" data-copy="code">'
        '</button></figcaption><pre tabindex="0"><code class="hl">'
        f"{highlighted(code, language)}</code></pre></figure>\n"
    )


def highlighted(code: str, language: str) -> str:
    """Escaped code with classes for its parts, if the language is known."""
    if language and len(code) <= LARGEST_CODE:
        try:
            lexer = get_lexer_by_name(language, stripnl=False)
        except ClassNotFound:
            return html.escape(code)
        marked: str = highlight(code, lexer, _formatter)
        return marked
    return html.escape(code)


def _parser() -> MarkdownIt:
    options: dict[str, Any] = {"html": False, "linkify": False, "breaks": True}
    parser = MarkdownIt("commonmark", options, renderer_cls=Renderer)
    return parser.enable(["table", "strikethrough"])


_markdown = _parser()


@lru_cache(maxsize=512)
def render(text: str) -> str:
    """HTML that is safe to insert into a page. The same text costs nothing twice."""
    if len(text) > LARGEST:
        return f'<pre class="plain">{html.escape(text)}</pre>'
    env: dict[str, Any] = {}
    tokens = _markdown.parse(text, env)
    _nest_headings(tokens)
    page: str = _markdown.renderer.render(tokens, _markdown.options, env)
    return _cleaner.clean(page)
