"""The keys of a typed line: the suggestion before each, and how much of it is right."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from os.path import commonprefix

from efim_lab.gate.documents import CodeDocument, package_of
from efim_lab.gate.evaluation import heuristic
from efim_lab.gate.evaluation.places.cursors import context_at, is_word
from efim_lab.gate.evaluation.typist.cursor_kinds import CursorKind, kind_of
from efim_lab.gate.evaluation.typist.known_words import makes_unknown_word
from efim_lab.gate.evaluation.typist.lines import TypedLine
from efim_lab.gate.package_counts import PackageCounts
from efim_lab.gate.package_keywords import PackageKeywords
from efim_ls.completion.completer import Completer
from efim_ls.completion.filters.place import place_at
from efim_ls.completion.suggestions.place_kind import PlaceKind, spot_of
from efim_ls.completion.suggestions.sureness import first_word_end
from efim_ls.request import Answer, ListedNames, Preset, Reason, Request
from efim_ls.workspace.modules.table import ModuleTable
from model_runtime.cancel import NEVER

READING = 60.0  # seconds that reading the modules which a document imports may take
NOT_MADE: tuple[Reason, ...] = ("binary text", "line too long", "superseded")  # nothing was decoded
SHORTEST_AFTER = 200  # characters of the file behind the cursor that a key keeps, if there are as many


@dataclass(frozen=True)
class RecordedAnswer(Answer):
    """An answer and the tokens that it was made from, before they were filtered and cut.

    The texts of `tokens` are what the model would go on with from the cursor, each with its share of the chances.
    """

    tokens: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TypedKey:
    """The suggestion before a key is pressed: `shown`, and `hidden`, which follows it but is not shown.

    `line` and `column` count from 1 and 0. `typed` is the line up to the cursor. `after` is the finished file's text
    from the cursor on that is compared: 200 characters, or the suggestion's length if that is longer. Of the
    suggested characters, with the hidden ones, the first `right` are right. `words` are the server's pieces of both
    texts, each with its probability once the pieces before it are right: another level's suggestion can be computed
    from them. `tokens` are the decoded tokens, as in RecordedAnswer; empty for a source without a model. `reason`
    says why nothing is shown. `makes_unknown_word` is true if the suggestion turns the word at the cursor into a word
    that stands nowhere.
    """

    arm: str
    file: str
    package: str
    language: str
    line: int
    column: int
    kind: CursorKind
    place: PlaceKind
    typed: str
    after: str
    shown: str
    hidden: str
    confidence: float | None
    reason: Reason | None
    words: tuple[tuple[str, float], ...]
    tokens: tuple[tuple[str, float], ...]
    right: int
    makes_unknown_word: bool

    @property
    def pressed(self) -> str:
        """What the key brings into the file: a new line takes the next line's indentation along."""
        first, rest = self.after[0], self.after[1:]
        return first + rest[: len(rest) - len(rest.lstrip(" \t"))] if first == "\n" else first

    @property
    def is_right(self) -> bool:
        """Whether something is shown and the file goes on with all of it."""
        return 0 < len(self.shown) <= self.right

    @property
    def is_first_word_right(self) -> bool:
        """Whether the first word shown, with what stands before it, is right and ends where the file's does."""
        end = first_word_end(self.shown)
        if not end or not self.after.startswith(self.shown[:end]):
            return False
        return not (is_word(self.shown[end - 1]) and is_word(self.after[end : end + 1]))

    @property
    def wrong(self) -> str:
        """The text shown, from its first wrong character on."""
        return self.shown[self.right :]


Ask = Callable[[TypedLine, int, tuple[CodeDocument, ...]], Answer]  # (line, cursor, other open files)


def type_line(
    arm: str, line: TypedLine, others: tuple[CodeDocument, ...], ask: Ask, elsewhere: Collection[str] = ()
) -> list[TypedKey]:
    """Type a line key by key and return the suggestion before each of its keys.

    `elsewhere` are words that stand in other files.
    """
    return [key_at(arm, line, cursor, ask(line, cursor, others), elsewhere) for cursor in line.cursors]


def key_at(arm: str, line: TypedLine, cursor: int, answer: Answer, elsewhere: Collection[str] = ()) -> TypedKey:
    """Return the key that is pressed at a cursor after an answer."""
    suggested, after, typed = answer.text + answer.hidden, line.after(cursor), line.typed_at(cursor)
    language = line.document.language
    return TypedKey(
        arm=arm,
        file=line.document.path,
        package=package_of(line.document),
        language=language,
        line=line.document.text.count("\n", 0, cursor) + 1,
        column=len(typed),
        kind=kind_of(line, cursor),
        place=spot_of(place_at(line.text_at(cursor), cursor, language)).kind,
        typed=typed,
        after=after[: max(SHORTEST_AFTER, len(suggested) + 1)],
        shown=answer.text,
        hidden=answer.hidden,
        confidence=answer.confidence,
        reason=answer.reason,
        words=answer.words,
        tokens=answer.tokens if isinstance(answer, RecordedAnswer) else (),
        right=len(commonprefix([suggested, after])),
        makes_unknown_word=makes_unknown_word(line, cursor, suggested, elsewhere),
    )


def no_names(_line: TypedLine, _cursor: int) -> None:
    """List no names: there is no other server."""


def asking(
    completer: Completer,
    least: float | Preset,
    root: str = "typed",
    memories: PackageCounts | None = None,
    modules: ModuleTable | None = None,
    listed: Callable[[TypedLine, int], ListedNames | None] = no_names,
) -> Ask:
    """Return a function that asks the server's completer as an editor does while its user types.

    Documents of another `root` are others: suggestions for one are not known in the other. With `memories`, the
    server knows the line's repository, with `modules` the names in those that are imported. Keywords of calls are
    known by the line's file and repository. `listed` returns the names that another server lists at a cursor.
    """
    keywords = PackageKeywords(memories.packages if memories else ())

    def ask(line: TypedLine, cursor: int, others: tuple[CodeDocument, ...]) -> Answer:
        if modules and cursor == line.start:
            modules.want(line.document.path, line.text_at(cursor))
            modules.wait(READING)
        text = line.text_at(cursor)
        request = Request(
            uri=f"file:///{root}/{line.document.path}",
            text=text,
            cursor=cursor,
            others=tuple(other.text for other in others),
            least=least,
            language=line.document.language,
            counts=memories.beside(line.document, others) if memories else None,
            modules=modules.view if modules else None,
            listed=listed(line, cursor) or keywords.at(line.document, text, cursor),
        )
        answer = completer.complete(request, NEVER)
        if answer.at_rest:  # the typist does not stop
            answer = replace(answer, text="", hidden=answer.text + answer.hidden, reason="low confidence")
        made = completer.made_from(request.uri) if answer.reason not in NOT_MADE else None
        return RecordedAnswer(**vars(answer), tokens=tuple(made.likelihood.tokens(made.start)) if made else ())

    return ask


def ask_heuristic(line: TypedLine, cursor: int, others: tuple[CodeDocument, ...]) -> Answer:
    """Ask the heuristic, which reads the whole file and the others."""
    context = context_at(line.text_at(cursor), cursor, cursor, 1)
    return Answer(heuristic.complete(context, tuple(other.text for other in others)))
