// What the status bar shows of a condition; pure functions.
import { MarkdownString, ThemeColor } from "vscode";
import { escaped } from "./markdown";
import { remedies, type Remedy } from "./remedies";
import type { Condition } from "./service";
import { SECTION, signed, withOurNames } from "./settings";
import { modelName, OUTCOMES, type Status } from "./status";

export interface Appearance {
    readonly text: string;
    readonly label: string;
    readonly tooltip: MarkdownString;
    readonly background?: ThemeColor;
}

type Link = Omit<Remedy, "icon">;

const TELLING = 10; // accepted suggestions, of which a share tells something
const REMEDIES = 2; // the most in the tooltip; the menu has all
const OF_SERVER: readonly Link[] = [
    { title: "Explain", command: "efim-ls.explain" },
    { title: "Statistics", command: "efim-ls.showStatistics" },
];
const ALWAYS: readonly Link[] = [
    { title: "Log", command: "efim-ls.showLog" },
    { title: "Menu", command: "efim-ls.showMenu" },
];
const ERROR = new ThemeColor("statusBarItem.errorBackground");
const WARNING = new ThemeColor("statusBarItem.warningBackground");

export function appearance(condition: Condition): Appearance {
    switch (condition.kind) {
        case "starting":
            return shown(condition, "$(loading~spin) efim", "starting", "The server is starting.");
        case "working":
            return shown(condition, "$(sync~spin) efim", "working", condition.message);
        case "failed":
            if (condition.cause === "not found") {
                return shown(condition, "$(cloud-download) efim", "no server", condition.message);
            }
            return { ...shown(condition, "$(error) efim", "error", condition.message), background: ERROR };
        case "snoozed":
            return shown(condition, "$(bell-slash) efim", "snoozed", snoozed(condition.until));
        case "running":
            return ofStatus(condition, condition.status);
    }
}

function ofStatus(condition: Condition, status: Status): Appearance {
    const { state } = status;
    const message = withOurNames(status.notice ?? status.message);
    switch (state) {
        case "loading":
            return shown(condition, `$(loading~spin) efim${percent(status.percentage)}`, state, message);
        case "ready": {
            const icon = status.busy ? "sync~spin" : status.fallback ? "warning" : status.notice ? "info" : "zap";
            const ready = shown(condition, `$(${icon}) efim`, status.busy ? "busy" : state, message, details(status));
            return status.fallback ? { ...ready, background: WARNING } : ready;
        }
        case "off":
            return shown(condition, "$(circle-slash) efim", state, message);
        case "error":
            return { ...shown(condition, "$(error) efim", state, message), background: ERROR };
    }
}

function shown(
    condition: Condition,
    text: string,
    state: string,
    message: string,
    more: readonly string[] = [],
): Appearance {
    const serves = condition.kind === "running" || condition.kind === "snoozed";
    const links = [...remedies(condition).slice(0, REMEDIES), ...(serves ? OF_SERVER : []), ...ALWAYS];
    const said = `**${SECTION}**${escaped(signed(message).slice(SECTION.length))}`;
    const lines = [said, ...more.map(escaped), "---", links.map(link).join(" | ")];
    const tooltip = new MarkdownString(lines.join("\n\n"));
    tooltip.isTrusted = { enabledCommands: links.map(({ command }) => command) };
    return { text, label: `efim-ls: ${state}. ${message}`, tooltip };
}

function link({ title, command, argument }: Link): string {
    const query = argument === undefined ? "" : `?${encodeURIComponent(JSON.stringify([argument]))}`;
    return `[${escaped(title)}](command:${command}${query})`;
}

function snoozed(until: Date): string {
    const time = until.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    return `Suggestions are snoozed until ${time}. Those that you ask for with a key still come.`;
}

function details({ model, device, larger, remote, last, typical_ms, counters }: Status): string[] {
    const lines = [`Model: ${modelName(model ?? "")}, on ${device === "cpu" ? "the CPU" : device}`];
    if (larger) {
        lines.push(`Larger model: ${modelName(larger)}, whose answer is shown where it is surer`);
    }
    if (remote) {
        lines.push(`Your text is also sent to the model on ${remote}`);
    }
    if (typeof typical_ms === "number") {
        lines.push(`A typical key: ${typical_ms.toFixed(1)} ms`);
    }
    if (last) {
        const { reason, ms } = last;
        lines.push(reason === null ? `Last suggestion: ${ms.toFixed(1)} ms` : `No suggestion at the last key: ${OUTCOMES[reason] ?? reason}`);
    }
    if (counters?.shown) {
        const { shown: seen, accepted, partially_accepted, kept_rate } = counters;
        lines.push(`Suggestions: ${seen} seen, ${accepted} taken whole, ${partially_accepted} in part`);
        if (kept_rate !== null && accepted + partially_accepted >= TELLING) {
            lines.push(`Of the characters you took, ${rounded(kept_rate)} were still there after 30 s`);
        }
    }
    return lines;
}

function percent(value: number | null | undefined): string {
    return typeof value === "number" ? ` ${value} %` : "";
}

function rounded(rate: number): string {
    return `${Math.round(rate * 100)} %`;
}
