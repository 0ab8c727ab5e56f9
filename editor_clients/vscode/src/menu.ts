// The menu of the status bar item: the commands that make sense now.
import { commands, extensions, QuickPickItemKind, window, type QuickPickItem } from "vscode";
import { currentLevel, LEVELS } from "./levels";
import { remedies } from "./remedies";
import type { Condition } from "./service";
import { configuration, SECTION, signed, withOurNames } from "./settings";
import { switches } from "./switches";

interface Choice extends QuickPickItem {
    readonly command?: string;
    readonly argument?: string | boolean;
}

const SNOOZE: Choice = { label: "$(bell-slash) Snooze for 5 minutes", command: "efim-ls.snooze" };
const LOG: Choice = { label: "$(output) Show the log", command: "efim-ls.showLog" };

/** Show what can be done: first what mends a problem, which the title names. What Enter chooses does no harm. */
export async function showMenu(condition: Condition, running: boolean): Promise<void> {
    const { on, off } = toggles();
    const groups = [
        mending(condition),
        on,
        [...(running ? ofSuggestions() : []), settings()],
        running ? [...levels(), nextEdits()] : [],
        [...(running && condition.kind !== "snoozed" ? [SNOOZE] : []), ...off],
        [LOG, ...(running ? ofServer() : [])],
    ];
    const choices = groups.filter((each) => each.length > 0).flatMap((each) => [separator(), ...each]).slice(1);
    const options = { title: title(condition), placeHolder: "Choose what to do" };
    const chosen = await window.showQuickPick(choices, options);
    if (chosen?.command !== undefined) {
        await commands.executeCommand(chosen.command, ...(chosen.argument === undefined ? [] : [chosen.argument]));
    }
}

function title(condition: Condition): string {
    switch (condition.kind) {
        case "failed":
            return signed(condition.message);
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
    return remedies(condition).map(({ title: label, icon, ...rest }) => ({ label: `$(${icon}) ${label}`, ...rest }));
}

/** Return what turns suggestions on, the whole first, and what turns them off, the least first. */
function toggles(): { readonly on: Choice[]; readonly off: Choice[] } {
    const { off, offForUser, offForLanguage, language } = switches();
    const named = language === undefined ? "" : languageName(language);
    const all = [
        ...(language === undefined ? [] : [toggle(offForLanguage, `for ${named}`, "ForLanguage")]),
        toggle(off, "in this workspace", "ForWorkspace"),
        toggle(offForUser, "everywhere", ""),
    ];
    return { on: all.filter(({ isOff }) => isOff).toReversed(), off: all.filter(({ isOff }) => !isOff) };
}

function toggle(isOff: boolean, where: string, command: string): Choice & { readonly isOff: boolean } {
    return isOff
        ? { isOff, label: `$(zap) Enable ${where}`, command: `efim-ls.enable${command}` }
        : { isOff, label: `$(circle-slash) Disable ${where}`, command: `efim-ls.disable${command}` };
}

/** Return the name of a language as VS Code shows it. */
function languageName(id: string): string {
    const declared = extensions.all.flatMap(({ packageJSON }) => packageJSON?.contributes?.languages ?? []);
    const named = declared.find((each: { id?: string; aliases?: string[] }) => each.id === id && each.aliases?.[0]);
    return named?.aliases[0] ?? id;
}

function ofSuggestions(): Choice[] {
    return [
        { label: "$(question) Explain the suggestion at the cursor", command: "efim-ls.explain" },
        { label: "$(graph) Show statistics", command: "efim-ls.showStatistics" },
        { label: "$(library) Choose a model...", command: "efim-ls.chooseModel" },
    ];
}

/** Return what sets how many suggestions there are, the current choice marked; a number is none of them. */
function levels(): Choice[] {
    const current = currentLevel();
    return Object.entries(LEVELS).map(([level, label]) => {
        const choice = { command: "efim-ls.setSuggestions", argument: level };
        return level === current
            ? { ...choice, label: `$(check) ${label}`, description: "current" }
            : { ...choice, label: `$(blank) ${label}` };
    });
}

function nextEdits(): Choice {
    const isOn = configuration().get("nextEdit", true);
    const label = isOn ? "$(edit) Turn next edits off" : "$(edit) Turn next edits on";
    return { label, command: "efim-ls.switchNextEdits", argument: !isOn };
}

function settings(): Choice {
    return { label: "$(gear) Settings", command: "workbench.action.openSettings", argument: `@ext:efim-ls.${SECTION}` };
}

function ofServer(): Choice[] {
    return [
        { label: "$(refresh) Restart the server", command: "efim-ls.restart" },
        { label: "$(trash) Clear the cache", command: "efim-ls.clearCache" },
    ];
}

function separator(): Choice {
    return { label: "", kind: QuickPickItemKind.Separator };
}
