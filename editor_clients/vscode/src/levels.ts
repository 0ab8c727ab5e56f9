// How many suggestions are shown while the user types: the words of the setting `suggestions`.
import { ConfigurationTarget } from "vscode";
import { configuration } from "./settings";

const SUGGESTIONS = "suggestions";

/** The words, as a menu names them. */
export const LEVELS = {
    more: "More suggestions",
    balanced: "Balanced suggestions",
    sure: "Only sure suggestions",
    "on request": "Only when I press a key",
} as const;

/** Return the word or the number in force. */
export function currentLevel(): unknown {
    return configuration().get(SUGGESTIONS);
}

/** Set the word for the user, or for the workspace if its own word hides the user's. */
export async function setLevel(level: string): Promise<void> {
    const ours = configuration();
    const inWorkspace = ours.inspect(SUGGESTIONS)?.workspaceValue !== undefined;
    await ours.update(SUGGESTIONS, level, inWorkspace ? ConfigurationTarget.Workspace : ConfigurationTarget.Global);
}
