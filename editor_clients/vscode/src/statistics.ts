// Suggestions by outcome, since the server started and in total, as a page to read.
import type { LanguageClient } from "vscode-languageclient/node";
import type { Server } from "./finding";
import { lastLine, run } from "./process";
import { configuration } from "./settings";
import { OUTCOMES, STATUS, type Status } from "./status";

interface Stats {
    readonly requests: number;
    readonly answered: Readonly<Record<string, number>>;
    readonly next_edits?: { readonly shown: number; readonly accepted: number; readonly kept: number };
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

function ofTheSession({ requests, answered, next_edits: edits, tokens, ms }: Stats, { counters }: Status): string[] {
    return [
        "| | |",
        "| --- | ---: |",
        `| requests | ${requests} |`,
        `| suggestions seen | ${counters?.shown ?? 0} |`,
        `| accepted | ${counters?.accepted ?? 0} |`,
        `| accepted in part | ${counters?.partially_accepted ?? 0} |`,
        cells(["share of the suggestions seen that were accepted, whole or in part", percent(counters?.acceptance_rate)]),
        cells(["share of the accepted characters still there after 30 s", percent(counters?.kept_rate)]),
        `| next edits seen | ${edits?.shown ?? 0} |`,
        `| next edits accepted | ${edits?.accepted ?? 0} |`,
        `| of these kept | ${edits?.kept ?? 0} |`,
        cells(["share of the prompt tokens that were reused", share(tokens.reused, tokens.recomputed + tokens.reused)]),
        cells(["a typical key: time to an answer, median", milliseconds(ms.p50)]),
        cells(["time to an answer, 95th percentile", milliseconds(ms.p95)]),
        "\n### Requests by outcome\n",
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
    return `| ${texts.join(" | ").replace(/(?<=\d) (?=%|ms)/g, "\u00a0")} |`; // a figure and its unit on one line
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
