// Settings that switch suggestions on and off by file and language, and the context keys of menus.
import { basename, dirname, relative, sep } from "node:path";
import { commands, ConfigurationTarget, Uri, window, workspace } from "vscode";
import { editorInFront } from "./presence";
import { configuration, SECTION } from "./settings";

export interface Switches {
    readonly off: boolean;
    readonly offForUser: boolean;
    readonly offForLanguage: boolean;
    /** The language of the document in front. */
    readonly language: string | undefined;
}

export function switches(): Switches {
    const ours = configuration();
    const language = editorInFront()?.document.languageId;
    return {
        off: !ours.get("enabled", true),
        offForUser: ours.inspect<boolean>("enabled")?.globalValue === false,
        offForLanguage: language !== undefined && ours.get<string[]>("disabledLanguages", []).includes(language),
        language,
    };
}

/** Set the context keys that hide commands which make no sense now. */
export async function updateContext(running: boolean, snoozed: boolean): Promise<void> {
    const { off, offForUser, offForLanguage, language } = switches();
    const keys = { off, offForUser, offForLanguage, editing: language !== undefined, running, snoozed };
    const set = ([key, value]: [string, boolean]): unknown =>
        commands.executeCommand("setContext", `${SECTION}.${key}`, value);
    await Promise.all(Object.entries(keys).map(set));
}

export async function switchForUser(on: boolean): Promise<void> {
    await configuration().update("enabled", on ? undefined : false, ConfigurationTarget.Global);
}

export async function switchForWorkspace(on: boolean): Promise<void> {
    const said = on ? (switches().offForUser ? true : undefined) : false;
    await configuration().update("enabled", said, ConfigurationTarget.Workspace);
}

/** Change the settings that name the languages now: a workspace's settings hide the user's. */
export async function switchForLanguage(on: boolean): Promise<void> {
    const { language } = switches();
    if (language === undefined) {
        void window.showInformationMessage("efim-ls: no file is open. Open one in the language that you want to turn on or off.");
        return;
    }
    const ours = configuration();
    const others = ours.get<string[]>("disabledLanguages", []).filter((name) => name !== language);
    const inWorkspace = ours.inspect("disabledLanguages")?.workspaceValue !== undefined;
    const target = inWorkspace ? ConfigurationTarget.Workspace : ConfigurationTarget.Global;
    await ours.update("disabledLanguages", on ? others : [...others, language], target);
}

export async function switchNextEdits(on: boolean): Promise<void> {
    await configuration().update("nextEdit", on ? undefined : false, ConfigurationTarget.Global);
}

let otherFiles: string | undefined; // the value before it was switched off

/** Switch the memory of the repository off, in the workspace if there is one, or back to its earlier value. */
export async function switchRepository(on: boolean): Promise<void> {
    if (!on) {
        const before = configuration().inspect<string>("otherFiles");
        otherFiles = here() === ConfigurationTarget.Workspace ? before?.workspaceValue : before?.globalValue;
    }
    await configuration().update("otherFiles", on ? otherFiles : "off", here());
}

/**
 * Take nothing any more from the folder of a file.
 *
 * The setting is `disabledFiles`: `privateFiles` keeps files from the disk alone, and their words would still be said.
 */
export async function leaveOut(path: string): Promise<void> {
    const ours = configuration();
    const [pattern, target] = [patternFor(path), here()];
    const before = ours.inspect<string[]>("disabledFiles");
    const others = ours.get<string[]>("disabledFiles", []).filter((each) => each !== pattern);
    await ours.update("disabledFiles", [...others, pattern], target);
    void offerUndo(pattern, async () => {
        const value = target === ConfigurationTarget.Workspace ? before?.workspaceValue : before?.globalValue;
        await configuration().update("disabledFiles", value, target);
    });
}

/**
 * Return the pattern for the folder of a file, or for the file if it lies in the workspace's own folder.
 *
 * It begins with the name of the workspace's folder, so that it is right wherever that lies.
 */
export function patternFor(path: string): string {
    const workspaceFolder = workspace.getWorkspaceFolder(Uri.file(path))?.uri.fsPath;
    if (workspaceFolder === undefined || basename(workspaceFolder) === "") {
        return dirname(path);
    }
    const inside = relative(workspaceFolder, path).split(sep);
    return [basename(workspaceFolder), ...(inside.length > 1 ? inside.slice(0, -1) : inside)].join("/");
}

/** Return where a choice for these files belongs: an untrusted workspace cannot say which files are left out. */
function here(): ConfigurationTarget {
    const inWorkspace = workspace.isTrusted && workspace.workspaceFolders !== undefined;
    return inWorkspace ? ConfigurationTarget.Workspace : ConfigurationTarget.Global;
}

async function offerUndo(pattern: string, undo: () => Promise<void>): Promise<void> {
    const said = `efim-ls: nothing is taken from ${pattern} any more, and files there get no suggestions.`;
    if ((await window.showInformationMessage(said, "Undo")) === "Undo") {
        await undo();
    }
}
