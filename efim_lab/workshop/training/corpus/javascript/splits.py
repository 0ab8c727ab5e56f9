"""Names the packages of npm that are not trained on: they measure, or settings are fitted to them."""

from efim_lab.workshop.training.corpus.language import Splits


def covers(listed: str, package: str) -> bool:
    """Return whether a listed name stands for a package: itself, or all of its scope or of a scope of that name."""
    scope = listed.partition("/")[0] if listed.startswith("@") else f"@{listed}"
    return package == listed or package.startswith(f"{scope}/")


SPLITS = Splits(
    apart={
        "heldout": frozenset({"axios", "commander", "express", "koa", "mobx", "rxjs", "zod"}),
        "tuning": frozenset(
            """
            ajv cheerio chevrotain clean-css fabric immer joi katex knex leaflet mongodb mongoose node-forge pdf-lib
            pino preact prosemirror-model prosemirror-view redux svgo winston ws yjs
            """.split()  # noqa: SIM905 - shorter than a list
        ),
    },
    measured=frozenset(
        """
        @nestjs/core chokidar date-fns execa fastify got hono mocha p-queue prisma ts-morph typeorm undici vitest
        vscode-languageserver vscode-languageserver-protocol yargs zustand
        """.split()  # noqa: SIM905 - shorter than a list
    ),
    covers=covers,
)
