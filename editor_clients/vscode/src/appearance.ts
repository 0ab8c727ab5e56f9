// What the status bar shows of a condition; pure functions.
import { MarkdownString, ThemeColor } from "vscode";
import type { Condition } from "./service";
import type { Status } from "./status";

export interface Appearance {
    readonly text: string;
    readonly label: string;
    readonly tooltip: MarkdownString;
    readonly background?: ThemeColor;
}

const LINKS = [
    ["Explain", "efim-ls.explain"],
    ["Statistics", "efim-ls.showStatistics"],
    ["Log", "efim-ls.showLog"],
    ["Menu", "efim-ls.showMenu"],
] as const;
const ERROR = new ThemeColor("statusBarItem.errorBackground");

export function appearance(condition: Condition): Appearance {
    switch (condition.kind) {
        case "starting":
            return shown("$(loading~spin) efim", "starting", "The server is starting.");
        case "failed":
            return { ...shown("$(error) efim", "error", condition.message), background: ERROR };
        case "running":
            return ofStatus(condition.status);
    }
}

function ofStatus(status: Status): Appearance {
    const { state, message } = status;
    switch (state) {
        case "loading":
            return shown(`$(loading~spin) efim${percent(status.percentage)}`, state, message);
        case "ready":
            return status.busy
                ? shown("$(sync~spin) efim", "busy", message, details(status))
                : shown("$(zap) efim", state, message, details(status));
        case "off":
            return shown("$(circle-slash) efim", state, message);
        case "error":
            return { ...shown("$(error) efim", state, message), background: ERROR };
    }
}

function shown(text: string, state: string, message: string, more: readonly string[] = []): Appearance {
    const tooltip = new MarkdownString("", true);
    tooltip.isTrusted = { enabledCommands: LINKS.map(([, command]) => command) };
    tooltip.appendMarkdown("**efim-ls**: ").appendText(message);
    for (const line of more) {
        tooltip.appendMarkdown("\n\n").appendText(line);
    }
    const links = LINKS.map(([title, command]) => `[${title}](command:${command})`);
    tooltip.appendMarkdown(`\n\n---\n\n${links.join(" | ")}`);
    return { text, label: `efim-ls: ${state}. ${message}`, tooltip };
}

function details({ model, device, last, counters }: Status): string[] {
    const lines = [`Model: ${model?.split(/[/\\]/).at(-1)}, on ${device}`];
    if (last) {
        const costs = `${last.reused} tokens reused, ${last.recomputed} recomputed, ${last.ms.toFixed(1)} ms`;
        lines.push(`Last answer: ${costs}${last.reason === null ? "" : ` (nothing to show: ${last.reason})`}`);
    }
    if (counters?.shown) {
        const { shown: seen, accepted, acceptance_rate, kept_rate } = counters;
        lines.push(
            `Suggestions: ${seen} seen, ${accepted} accepted${share(acceptance_rate, "at least in part")}`,
        );
        lines.push(
            ...(kept_rate === null ? [] : [`After 30 s, ${rounded(kept_rate)} of the accepted characters were still there.`]),
        );
    }
    return lines;
}

function percent(value: number | null | undefined): string {
    return typeof value === "number" ? ` ${value} %` : "";
}

function share(rate: number | null, what: string): string {
    return rate === null ? "" : `, ${rounded(rate)} ${what}`;
}

function rounded(rate: number): string {
    return `${Math.round(rate * 100)} %`;
}
