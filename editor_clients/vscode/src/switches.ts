// What is switched on and off where: the settings `enabled` and `disabledLanguages`, and the context keys of menus.
import { commands, ConfigurationTarget, window } from "vscode";
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

/** Change the settings that name the languages now: those of a workspace hide the user's. */
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
