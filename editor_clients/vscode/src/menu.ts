// The menu of the status bar item: the commands that make sense now.
import { commands, QuickPickItemKind, window, type QuickPickItem } from "vscode";
import { remedies } from "./remedies";
import type { Condition } from "./service";
import { SECTION, withOurNames } from "./settings";
import { switches } from "./switches";

interface Choice extends QuickPickItem {
    readonly command?: string;
    readonly argument?: string;
}

/** Show what can be done: first what mends a problem, which the title names. */
export async function showMenu(condition: Condition, running: boolean): Promise<void> {
    const choices = [...mending(condition), ...toggles(), ...(running ? ofServer(condition) : []), ...always()];
    const options = { title: title(condition), placeHolder: "Choose what to do" };
    const chosen = await window.showQuickPick(choices, options);
    if (chosen?.command !== undefined) {
        await commands.executeCommand(chosen.command, ...(chosen.argument === undefined ? [] : [chosen.argument]));
    }
}

function title(condition: Condition): string {
    switch (condition.kind) {
        case "failed":
            return `efim-ls: ${condition.message}`;
        case "running": {
            const { state, fallback, notice, message } = condition.status;
            const problem = state === "error" || state === "off" || fallback ? message : (notice ?? "");
            return problem === "" ? "efim-ls" : `efim-ls: ${withOurNames(problem)}`;
        }
        default:
            return "efim-ls";
    }
}

function mending(condition: Condition): Choice[] {
    const first = remedies(condition).map(({ title: label, icon, ...rest }) => ({ label: `$(${icon}) ${label}`, ...rest }));
    return first.length === 0 ? [] : [...first, separator()];
}

function toggles(): Choice[] {
    const { off, offForUser, offForLanguage, language } = switches();
    const all = offForUser
        ? { label: "$(zap) Enable", command: "efim-ls.enable" }
        : { label: "$(circle-slash) Disable", command: "efim-ls.disable" };
    const workspace = off
        ? { label: "$(zap) Enable in this workspace", command: "efim-ls.enableForWorkspace" }
        : { label: "$(circle-slash) Disable in this workspace", command: "efim-ls.disableForWorkspace" };
    const forLanguage = offForLanguage
        ? { label: `$(zap) Enable for ${language}`, command: "efim-ls.enableForLanguage" }
        : { label: `$(circle-slash) Disable for ${language}`, command: "efim-ls.disableForLanguage" };
    const switching = [all, workspace, ...(language === undefined ? [] : [forLanguage])];
    const isOn = ({ label }: Choice): boolean => label.startsWith("$(circle-slash)");
    return [...switching.filter((each) => !isOn(each)), ...switching.filter(isOn), separator()];
}

function ofServer(condition: Condition): Choice[] {
    return [
        ...(condition.kind === "snoozed" ? [] : [{ label: "$(bell-slash) Snooze for 5 minutes", command: "efim-ls.snooze" }]),
        { label: "$(library) Choose a model...", command: "efim-ls.chooseModel" },
        { label: "$(question) Explain the suggestion at the cursor", command: "efim-ls.explain" },
        { label: "$(graph) Show statistics", command: "efim-ls.showStatistics" },
        { label: "$(refresh) Restart the server", command: "efim-ls.restart" },
        { label: "$(trash) Clear the cache", command: "efim-ls.clearCache" },
        separator(),
    ];
}

function always(): Choice[] {
    return [
        { label: "$(output) Show the log", command: "efim-ls.showLog" },
        { label: "$(gear) Settings", command: "workbench.action.openSettings", argument: `@ext:efim-ls.${SECTION}` },
    ];
}

function separator(): Choice {
    return { label: "", kind: QuickPickItemKind.Separator };
}
