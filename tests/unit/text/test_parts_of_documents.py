"""The parts of documents in several languages: told by text and cursor alone, whatever was typed before."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tree_sitter import Node

from efim_ls.completion.answerers.cleaning import clean
from efim_ls.completion.filters.place import place_of
from efim_ls.languages.table import LANGUAGES
from efim_ls.request import Request
from efim_ls.text.parts import Parts, part_at, parts_of

ELEMENTS = (
    "<template>", "</template>", '<p v-if="a < b">', "{{ a <b }}", "</p>", '<script lang="ts">', "<script>",
    "</script>", "<style>", "</style>", "<SCRIPT type=module>", "</Script >", "let a = 1;\n", '"</p>"', "<!--", "-->",
    "{#if a < b}", "</scrip", "<sc", "ript", ' lang="tsx"', " src='a>b'", ".a {}", "\n---\n", "---",
)  # fmt: skip
DIRECTIVES = (
    "<%", "<%=", "%>", "-%>", "<%-", "<%#", "<%%", "%%>", " if a ", "end", "<p>", "</p>", "<%graphql", "graph", "ql",
    "|",
)  # fmt: skip
PHP = (
    "<?php ", "<?=", "?>", "<?", "php", '"a', "'", "`", "// a", "# a", "/*", "*/", "<<<EOT\n", "EOT;\n", "$a->b", "{",
    "}", "if ($a): ", "endif;", "<p>", "</p>", "echo 1;", "class A {", "<?xml",
)  # fmt: skip
PIECES = {
    "html": ELEMENTS, "vue": ELEMENTS, "svelte": ELEMENTS, "astro": ("---\n", *ELEMENTS), "erb": DIRECTIVES,
    "ejs": DIRECTIVES, "php": PHP,
}  # fmt: skip
SIGNS = "<>%?-='\"/!=t \né𝄞"
Step = tuple[float, int, str, float | None]


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, str, list[Step]]:
    """A language, a text in it, and edits: where, how much is removed, what is new, and where the user goes then."""
    language = draw(st.sampled_from([*PIECES]))
    pieces = st.sampled_from(PIECES[language]) | st.sampled_from(SIGNS) | st.sampled_from(("", "some words "))
    steps = st.tuples(st.floats(0, 1), st.sampled_from((0, 0, 0, 1, 3, 12)), pieces, st.none() | st.floats(0, 1))
    return language, "".join(draw(st.lists(pieces, max_size=20))), draw(st.lists(steps, min_size=1, max_size=14))


@given(histories())
@example(("html", "<style>a<script?>b", [(0.4, 0, "", None), (0.85, 1, " ", None), (0.95, 0, "", None)]))
@example(("vue", "<script>a <-", [(0.8, 0, "", None), (0.95, 1, "", None)]))
@example(("vue", "<p></p><script>a</script><b></b>", [(0.0, 0, "", 0.5), (0.0, 0, "some words ", 0.5)]))
@example(("erb", "<p></p><% a %><b></b>", [(0.0, 0, "", 0.5), (1.0, 0, "some words ", 0.6)]))
def test_the_part_at_a_cursor_is_the_same_after_edits_as_anew(history: tuple[str, str, list[Step]]) -> None:
    language, text, steps = history
    warm, cursor = parts_of(language), 0
    assert warm is not None
    for place, removed, new, goes_to in steps:
        at = round(place * len(text))
        text, cursor = text[:at] + new + text[at + removed :], at + len(new)
        cursor = cursor if goes_to is None else round(goes_to * len(text))
        assert warm.at(text, cursor) == part_at(language, text, cursor)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("html", "‸<p>a‸</p><script>‸\n‸\n‸</script>‸", "- - javascript javascript javascript -"),
        ("html", "<script>‸</script><SCRIPT type='text/typescript'>a‸</Script>‸", "javascript typescript -"),
        ("html", "<script type='application/ld+json'>‸</script><script type='text/x-template'>‸</script>", "- -"),
        ("html", "<script type=module>‸</script><script type='text/babel'>‸</script>", "javascript javascriptreact"),
        ("html", "<!-- <script>‸</script> --><p title='<script>‸'>‸</p>", "- - -"),
        ("html", "<style>a { content: '<scr‸ipt>'; ‸}‸</style>‸", "css css css -"),
        ("html", "<script>a = '<script>‸<style>'; ‸b‸</script>‸", "javascript javascript javascript -"),
        ("html", "<p>{% if a < b %}<script type=module>var a = {{ b }};‸</script>", "javascript"),
        ("html", "<scripty>‸</scripty><script-a>‸</script-a></script>‸<script‸>‸", "- - - - javascript"),
        ("html", "<script>a‸", "javascript"),
        ("html", "<script>\n// no `</script` here\n‸</script>‸<p>", "javascript -"),
        ("html", "<#dict id='a' />\n<link ref='$ {path} /a.css 'rel=' b '>${path}\n<script>‸</script>", "javascript"),
        ("html", "<script type='text/template'><td>‸<%= name %></td></script><script>‸</script>", "- javascript"),
        ("vue", "<template>{{ a < b‸ }}</template>\n<script lang='ts' generic='T extends A<B>'>a‸", "- typescript"),
        ("vue", "<script lang = 'tsx'><p>‸</p></script>\n<style lang=\"scss\" scoped>‸", "typescriptreact scss"),
        ("vue", "<script data-lang='ts'>‸</script><script :lang='ts'>‸", "javascript javascript"),
        ("vue", "<script lang='ts' setup generic='T extends Record<string, string>'>‸</script>", "typescript"),
        ("vue", "<script lang='ts'>let x = <any>34;‸</script>\n<script setup>‸</script>", "typescript javascript"),
        ("vue", "<i18n lang='ts'>‸</i18n><template lang='pug'>‸", "- -"),
        ("vue", "<style lang='postcss'>‸</style><style lang='less'>‸</style>", "css less"),
        ("svelte", "{#if a < b}<b>{‸a}</b>{/if}\n<script context='module' lang='ts'>‸", "- typescript"),
        ("astro", "---‸\nconst a: A<B> = c - --d;‸\n‸---", "typescript typescript typescript"),
        ("astro", "---\nconst a: A<B> = c - --d;\n---‸\n<p>{a}</p><script>‸", "- typescript"),
        ("astro", "\n‸---\nimport '<script>‸", "- typescript"),
        ("astro", "---\n// these '---' fences\n‸a = '---';\n---‸\n<script>b\n---\n‸", "typescript - typescript"),
        ("astro", "---\nconst a = `\n---\n`;\n// don't\n‸\n---‸", "typescript -"),
        ("astro", "<p>---</p>\n---\n‸<style>‸", "- css"),
        ("erb", "‸<p><%=‸ user.name‸ %>‸</p><%- if a ‸-%>b<% end‸ %>", "- ruby ruby - ruby ruby"),
        ("erb", "<a href='<%= url_for(\"a > b\"‸) %>'‸><%# no‸ %></a><%%= x ‸%>", "ruby - - -"),
        ("erb", "<%%= @<%= plural‸ %>.count %> <%\n  # a ‸\n  b\n%>", "ruby ruby"),
        ("erb", "<%%‸><%=‸%>‸<%= a.each do |b|\n  c‸", "- ruby - ruby"),
        ("erb", "<p>50%‸ > 40%‸</p><% a <‸ b %> <% a % b‸", "- - ruby ruby"),
        ("eruby", "<%= a‸ %>‸", "ruby -"),
        ("ejs", "<%_ if (a) { ‸_%>‸<%- b‸ %>", "javascript - javascript"),
        ("php", "‸<p>\n<?php if ($a‸): ?>‸b<?= $c‸ ?>‸<?php endif;‸", "html php html php html php"),
        ("php", "<?php\n$a = '?>‸' . \"?>‸\"; /* ?>‸ */ echo <<<A\n‸{$b}\nA;\n// c ?>‸", "php php php php html"),
        ("php", "‸no sign at all‸", "html html"),
        ("php", "<?php\n//$a='<?xml version=\"1.0\"?>';‸\nprint 1;", "html"),
        ("php", "<?php\n/* \n?>‸ hello <?php‸ */ b();‸", "php php php"),
        ("php", "<div id='<?= get_id()‸ ?>' class='‸a'>", "php html"),
        ("php", "<?php echo 'unfinished‸", "php"),
        ("PHP", "‸<?PHP‸", "html php"),
    ],
)  # fmt: skip
def test_parts_are_where_their_signs_say(language: str, text: str, expected: str) -> None:
    pieces = text.split("‸")
    places = [len("".join(pieces[:count])) for count in range(1, len(pieces))]
    found = [part_at(language, "".join(pieces), each) for each in places]
    assert " ".join(part.language if part else "-" for part in found) == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("vue", "<template>{{ a < b }}</template>\n<script lang='ts'>\n‸\n</script>\n"),
        ("erb", "<% if a %>\n<%= ‸ %>\n<% end %>\n"),
        ("php", "<?php\n‸\n?><p>\n"),
        ("php", "<?php a(); ?>\n<p>‸</p>\n"),
        ("astro", "---\n‸\n---\n<p></p>"),
        ("html", "<p>‸</p><script>a</script>"),
    ],
)  # fmt: skip
def test_typing_between_signs_reads_none_again(language: str, text: str) -> None:
    read, grammar = list[Node](), LANGUAGES[language].mixed
    assert grammar is not None

    def begins(sign: re.Match[str], leaf: Node) -> str | None:
        read.append(leaf)
        return grammar.begins(sign, leaf)

    parts, (above, below) = Parts(language, replace(grammar, begins=begins)), text.split("‸")
    first, counted = parts.at(above + below, len(above)), len(read)
    for key in "total = sum(a, 1);\n":
        above += key
        assert parts.at(above + below, len(above)) == first
    assert len(read) == counted <= 1


def test_code_in_a_part_is_read_without_the_rest_of_the_document() -> None:
    text = "<p>(</p><script>\nlet a = f(\n</script><b>"
    cursor = text.index("f(") + 2
    place = place_of(Request("file:///a.vue", text, cursor, language="vue").at_part(part_at("vue", text, cursor)))
    assert (place.above, place.before, place.rest, place.below) == ("\n", "let a = f(", "", "")
    assert place.language == "javascript"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("erb", "<% if a %> <b><%# c %><%= d.e‸f -%></b>\n<%% g %><% end %>", " if a \n#\n d.e‸f \n#\n end "),
        ("ejs", "<% if (a) { %> <b>\n<%= d.e‸ %></b><% } %>", " if (a) { \n//\n d.e‸ \n//\n } "),
        ("php", "<p><?php if ($a): ?> <b>\n<?= $d‸ ?></b><?php endif ?>", " if ($a): \n;//\n $d‸ \n;//\n endif "),
        ("php", "<?php\n$a = 1;\n$b = $‸;\n", "\n$a = 1;\n$b = $‸;\n"),
        ("php", "<?php a() ?>\n<p>‸</p>", "<?php a() ?>\n<p>‸</p>"),
    ],
)  # fmt: skip
def test_code_in_pieces_is_read_as_one_program(language: str, text: str, expected: str) -> None:
    at, text = text.index("‸"), text.replace("‸", "")
    part = part_at(language, text, at)
    assert part is not None
    code, cursor = part.code(text, at)
    assert f"{code[:cursor]}‸{code[cursor:]}" == expected


@pytest.mark.parametrize(
    ("language", "text", "suggested", "kept"),
    [
        ("vue", "<script>\nlet a = ‸", "1;\n</script>\n<p>", "1;"),
        ("html", "<p/><script>f(us‸)</script>", "er)</script>", "er"),
        ("html", "<p/><script>f(us‸); g()</script><b>", "er", ""),
        ("erb", "<b><%= us‸ %></b>", "er %></b>", "er"), ("erb", "<b><%= us‸ %></b>", "er", "er"),
        ("erb", "<b><%= us‸", "er %></b>", "er"), ("erb", "<%= f(us‸, b) %>", "er, b) %>", "er"),
        ("erb", "<% if a %>\n<% e‸ %>\n<p/>\n<% end %>", "lse", "lse"),
        ("ejs", "<% if (a) { %>\n<p/>\n<% ‸ %>", "}", "}"),
        ("ejs", "<b><%= user.name %></b>\n<i><%= user.na‸ %></i>\n<%= user.name %>", "me", "me"),
        ("php", "<b><?= $us‸ ?></b>", "er ?></b>", "er"), ("php", "<?php if ($a): ?>\n<?php end‸ ?>", "if", "if"),
    ],
)  # fmt: skip
def test_a_suggestion_ends_with_its_part(language: str, text: str, suggested: str, kept: str) -> None:
    at, text = text.index("‸"), text.replace("‸", "")
    request = Request("file:///a", text, at, language=language).at_part(part_at(language, text, at))
    assert clean(suggested, place_of(request), 8)[0] == kept


@pytest.mark.parametrize("language", ["python", "typescript", "go", "css", "javascriptreact", "", "unheard"])
def test_most_languages_have_no_parts(language: str) -> None:
    assert parts_of(language) is None
