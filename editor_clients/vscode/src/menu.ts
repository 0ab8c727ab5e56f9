// The menu of the status bar item: the commands that make sense now.
import { commands, QuickPickItemKind, window, type QuickPickItem } from "vscode";
import type { Condition } from "./service";
import { SECTION } from "./settings";
import { switches } from "./switches";

interface Choice extends QuickPickItem {
    readonly command?: string;
    readonly argument?: string;
}

export async function showMenu(condition: Condition): Promise<void> {
    const running = condition.kind === "running";
    const title = condition.kind === "failed" ? `efim-ls: ${condition.message}` : "efim-ls";
    const choices = [...remedies(condition), ...toggles(), ...(running ? ofServer() : []), ...always()];
    const chosen = await window.showQuickPick(choices, { title, placeHolder: "Choose what to do" });
    if (chosen?.command !== undefined) {
        await commands.executeCommand(chosen.command, ...(chosen.argument === undefined ? [] : [chosen.argument]));
    }
}

function remedies(condition: Condition): Choice[] {
    if (condition.kind !== "failed") {
        return [];
    }
    return [
        { label: "$(refresh) Restart the server", command: "efim-ls.restart" },
        { label: "$(cloud-download) Install the server", command: "efim-ls.install" },
        separator(),
    ];
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
    return [all, workspace, ...(language === undefined ? [] : [forLanguage]), separator()];
}

function ofServer(): Choice[] {
    return [
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
