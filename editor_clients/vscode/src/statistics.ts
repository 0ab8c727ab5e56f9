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
    readonly recomputed: number;
    readonly reused: number;
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

function ofTheSession({ requests, answered, tokens, ms }: Stats, { counters }: Status): string[] {
    const reasons = Object.entries(answered).map(([reason, count]) => `${count} ${reason}`);
    return [
        "| | |",
        "| --- | ---: |",
        `| requests | ${requests} |`,
        `| answered with | ${reasons.join(", ")} |`,
        `| suggestions seen | ${counters?.shown ?? 0} |`,
        `| accepted | ${counters?.accepted ?? 0} |`,
        `| accepted in part | ${counters?.partially_accepted ?? 0} |`,
        `| share of the suggestions seen that were accepted, whole or in part | ${percent(counters?.acceptance_rate)} |`,
        `| share of the accepted characters still there after 30 s | ${percent(counters?.kept_rate)} |`,
        `| share of the prompt tokens that were reused | ${share(tokens.reused, tokens.recomputed + tokens.reused)} |`,
        `| time to an answer, median | ${milliseconds(ms.p50)} |`,
        `| time to an answer, 95th percentile | ${milliseconds(ms.p95)} |`,
    ];
}

async function ofTheMachine({ command, args }: Server): Promise<string[]> {
    const folder = configuration().get<string>("cache_folder", "");
    const words = [...args, "stats", "--json", "--folder", folder];
    const told = await run(command, words, { signal: AbortSignal.timeout(PATIENCE) });
    if (told.code !== 0) {
        return [`The statistics could not be read: ${lastLine(told.errors)}`];
    }
    const times: Record<string, Record<string, Sums>> = JSON.parse(told.output);
    const rows = Object.entries(times).flatMap(([time, languages]) =>
        Object.entries(languages).map(([language, sums]) => row(time, language, sums)),
    );
    const names = ["time", "language", "seen", "accepted", "in part", "characters accepted", "kept", "tokens reused"];
    return [cells(names), cells(["---", "---", ...names.slice(2).map(() => "---:")]), ...rows];
}

function row(time: string, language: string, sums: Sums): string {
    const { shown, accepted, partially_accepted, characters_accepted, characters_kept, recomputed, reused } = sums;
    const counts = [shown, accepted, partially_accepted, characters_accepted].map(String);
    const shares = [share(characters_kept, characters_accepted), share(reused, recomputed + reused)];
    return cells([time, language, ...counts, ...shares]);
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
