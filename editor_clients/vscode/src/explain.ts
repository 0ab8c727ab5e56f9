// What is suggested at the cursor, what the model reads there and what that costs, as a page to read.
import type { Position, TextDocument } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { escaped } from "./markdown";
import { identified } from "./presence";
import { withOurNames } from "./settings";

interface Suggestion {
    readonly shown: string;
    readonly hidden: string;
    /** The pieces of both, each with its probability once those before it are right. */
    readonly words: readonly (readonly [string, number])[];
}

interface Explanation {
    readonly head: string;
    readonly tail: string;
    readonly typed: string;
    readonly rest: string;
    readonly reason: string | null;
    readonly why?: string | null;
    readonly notice?: string | null;
    readonly suggestion?: Suggestion | null;
    readonly costs: {
        readonly frame: "kept" | "restored" | "new";
        readonly head: number;
        readonly tail: number;
        readonly typed: number;
        readonly reused: number;
        readonly recomputed: number;
    };
}

const FRAMES = {
    kept: "is what the model saw last",
    restored: "was seen earlier, and is used again",
    new: "is new to the model",
};

export async function explanation(client: LanguageClient, document: TextDocument, at: Position): Promise<string> {
    const position = { line: at.line, character: at.character };
    const found = await client.sendRequest<Explanation>("efim/explain", { ...identified(document), position });
    const name = document.uri.path.split("/").at(-1) ?? document.uri.path;
    const title = `## Suggestion at ${name}, line ${at.line + 1}, column ${at.character + 1}\n`;
    const said = found.reason === null && found.notice ? `${escaped(withOurNames(found.notice))}\n` : outcome(found);
    const suggested = found.suggestion ? suggestion(found.suggestion, document.languageId) : [];
    return [title, said, ...suggested, ...(hasPrompt(found) ? prompt(found, document.languageId) : [])].join("\n");
}

function outcome({ why, reason }: Explanation): string {
    const cause = why ?? reason;
    return cause ? `No suggestion: ${escaped(withOurNames(cause))}\n` : "The model is asked for a suggestion here.\n";
}

/** What is shown and, apart from it, what is hidden, with the probability of each word. */
function suggestion({ shown, hidden, words }: Suggestion, language: string): string[] {
    let place = 0;
    const [first, rest]: [string[], string[]] = [[], []];
    for (const [word, probability] of words) {
        (place < shown.length ? first : rest).push(`${inline(word.trim())} ${Math.round(100 * probability)} %`);
        place += word.length;
    }
    const later = "It is shown once it is likely enough (`efim-ls.minConfidence`), or by key.\n";
    return [
        ...(shown === "" ? [] : ["### What is shown\n", fenced(shown, language), `\n${first.join(", ")}\n`]),
        ...(hidden === "" ? [] : ["### What is hidden\n", fenced(hidden, language), `\n${rest.join(", ")}\n`, later]),
        ...(words.length === 0 ? [] : ["The figures say how likely each word is, if all before it is right.\n"]),
    ];
}

function hasPrompt({ head, tail, typed }: Explanation): boolean {
    return head + tail + typed !== "";
}

function prompt({ head, tail, typed, rest, costs }: Explanation, language: string): string[] {
    const { frame, reused, recomputed } = costs;
    return [
        "### What it costs\n",
        `Tokens computed: ${recomputed}, reused: ${reused}. The text around the cursor ${FRAMES[frame]}.\n`,
        "### What the model sees\n",
        "| part | tokens | characters |",
        "| --- | ---: | ---: |",
        row("head: before the lines you work on", costs.head, head),
        row("typed: from there to the cursor", costs.typed, typed),
        row("tail: after the cursor's line", costs.tail, tail),
        ...(rest === "" ? [] : [`\nThe rest of the cursor's line: \`${rest.trimEnd()}\``]),
        ...section("Typed", typed, language),
        ...section("Tail", tail, language),
        ...section("Head", head, language),
    ];
}

function row(part: string, tokens: number, text: string): string {
    return `| ${part} | ${tokens.toLocaleString("en")} | ${[...text].length.toLocaleString("en")} |`;
}

function section(title: string, text: string, language: string): string[] {
    return text === "" ? [] : [`\n### ${title}\n`, fenced(text, language)];
}

/** Put backticks around a text, more than stand in it. */
function inline(text: string): string {
    return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** Put a fence around a text, longer than any row of backticks in it. */
function fenced(text: string, language: string): string {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
    const fence = "`".repeat(longest + 1);
    return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}
