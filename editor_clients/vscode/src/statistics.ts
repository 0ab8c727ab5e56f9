// What became of the suggestions, since the server started and in total, as a page to read.
import type { LanguageClient } from "vscode-languageclient/node";
import type { Server } from "./finding";
import { lastLine, run } from "./process";
import { configuration } from "./settings";
import { STATUS, type Status } from "./status";

interface Stats {
    readonly requests: number;
    readonly answered: Readonly<Record<string, number>>;
    readonly tokens: { readonly recomputed: number; readonly reused: number };
    readonly ms: { readonly p50: number | null; readonly p95: number | null };
}

/** What `efim-ls stats --json` reports for a period and a language. */
interface Sums {
    readonly shown: number;
    readonly accepted: number;
    readonly partially_accepted: number;
    readonly characters_accepted: number;
    readonly characters_kept: number;
}

/** What `efim-ls stats --json` reports of the level that it has learnt for a language. */
interface Level {
    readonly level: number;
    readonly default: number;
    readonly shown: number;
    readonly kept: number;
    readonly usual: number;
}

const PATIENCE = 30_000; // ms
/** What the server's reasons mean; one that is not here is shown as it is. */
const OUTCOMES: Readonly<Record<string, string>> = {
    suggestion: "there was a suggestion",
    "low confidence": "not even the first word was likely enough",
    empty: "the model expected no more text",
    duplicate: "the suggestion only repeated text around the cursor",
    "no fit": "the suggestion did not fit the text around the cursor",
    "no phrase": "the model does not know the language, and the file has no phrase that fits",
    superseded: "a newer request replaced it",
    cancelled: "it was cancelled, because you typed on or moved away",
    loading: "the model was still loading",
    "no model": "no model was loaded",
    disabled: "suggestions were turned off",
    "workspace off": "suggestions were off in the workspace",
    "language off": "suggestions were off for the language",
    "file off": "suggestions were off for the file",
    "secret file": "the file looked like one with secrets",
    "file too large": "the file was too large",
    "binary text": "the text looked like binary data",
    "line too long": "the lines around the cursor were too long for the model",
    "unknown document": "the server did not know the document",
    error: "computing the suggestion failed: see the log",
};

export async function statistics(client: LanguageClient, server: Server): Promise<string> {
    const stats = await client.sendRequest<Stats>("efim/stats", {}); // first: the server then writes its counts to disk
    const [status, ever] = await Promise.all([
        client.sendRequest<Status>(STATUS, {}),
        ofTheMachine(server),
    ]);
    const title = "## Statistics of efim-ls\n\nThese numbers never leave this machine.\n";
    return [
        title,
        "### Since the server started\n",
        ...ofTheSession(stats, status),
        "\n### In total\n",
        ...ever,
    ].join("\n");
}

function ofTheSession({ requests, answered, tokens, ms }: Stats, { counters }: Status): string[] {
    return [
        "| | |",
        "| --- | ---: |",
        `| requests | ${requests} |`,
        `| suggestions seen | ${counters?.shown ?? 0} |`,
        `| accepted | ${counters?.accepted ?? 0} |`,
        `| accepted in part | ${counters?.partially_accepted ?? 0} |`,
        `| share of the suggestions seen that were accepted, whole or in part | ${percent(counters?.acceptance_rate)} |`,
        `| share of the accepted characters still there after 30 s | ${percent(counters?.kept_rate)} |`,
        `| share of the prompt tokens that were reused | ${share(tokens.reused, tokens.recomputed + tokens.reused)} |`,
        `| time to an answer, median | ${milliseconds(ms.p50)} |`,
        `| time to an answer, 95th percentile | ${milliseconds(ms.p95)} |`,
        "\n### What became of the requests\n",
        ...outcomes(answered),
    ];
}

function outcomes(answered: Stats["answered"]): string[] {
    const all = Object.entries(answered).sort(([, one], [, other]) => other - one);
    if (all.length === 0) {
        return ["There were no requests yet: open a file, and type."];
    }
    const rows = all.map(([reason, count]) => cells([OUTCOMES[reason] ?? reason, String(count)]));
    return [cells(["outcome", "requests"]), cells(["---", "---:"]), ...rows];
}

async function ofTheMachine({ command, args }: Server): Promise<string[]> {
    const folder = configuration().get<string>("cacheFolder", "");
    const words = [...args, "stats", "--json", "--folder", folder];
    const finished = await run(command, words, { signal: AbortSignal.timeout(PATIENCE) });
    if (finished.code !== 0) {
        return [`The statistics could not be read: ${lastLine(finished.errors)}`];
    }
    const { levels = {}, ...times } = JSON.parse(finished.output);
    const rows = withoutRepeats(times as Record<string, Record<string, Sums>>).flatMap(([time, languages]) =>
        Object.entries(languages).map(([language, sums]) => row(time, language, sums)),
    );
    const names = ["time", "language", "seen", "accepted", "in part", "characters accepted", "of these kept"];
    const table = [cells(names), cells(["---", "---", ...names.slice(2).map(() => "---:")]), ...rows];
    const learnt = Object.entries<Level>(levels).map(([language, level]) => explained(language, level));
    return learnt.length === 0 ? table : [...table, "\n### How sure the model must be\n", ...learnt];
}

/** Leave out each period that says the same as the next longer one. */
function withoutRepeats(times: Readonly<Record<string, Record<string, Sums>>>): [string, Record<string, Sums>][] {
    const all = Object.entries(times);
    const told = all.map(([, languages]) => JSON.stringify(languages));
    return all.filter((_, number) => told[number] !== told[number + 1]);
}

function row(time: string, language: string, sums: Sums): string {
    const { shown, accepted, partially_accepted, characters_accepted, characters_kept } = sums;
    const counts = [shown, accepted, partially_accepted, characters_accepted].map(String);
    return cells([time, language, ...counts, share(characters_kept, characters_accepted)]);
}

export function explained(language: string, { level, default: usually, shown, kept, usual }: Level): string {
    const from = `${language}: shown from ${percent(level)} on (default ${percent(usually)})`;
    return `- ${from}: of ${shown} suggestions you kept ${share(kept, shown)}, ${percent(usual)} is usual`;
}

function cells(texts: readonly string[]): string {
    return `| ${texts.join(" | ")} |`;
}

function share(part: number, whole: number): string {
    return percent(whole === 0 ? null : part / whole);
}

function percent(rate: number | null | undefined): string {
    return typeof rate === "number" ? `${Math.round(rate * 100)} %` : "-";
}

function milliseconds(time: number | null): string {
    return time === null ? "-" : `${time.toFixed(1)} ms`;
}
