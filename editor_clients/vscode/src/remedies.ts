// What can be done about a condition, the best first: as buttons of a message, in the menu, and in the tooltip.
import { commands, env } from "vscode";
import type { Server } from "./finding";
import { lackIn } from "./installing";
import type { Condition } from "./service";
import { MODEL, PYTHON, SECTION } from "./settings";

export interface Remedy {
    readonly title: string;
    readonly icon: string;
    readonly command: string;
    readonly argument?: string;
}

export const OPEN_SETTING = "efim-ls.openSetting";

const INSTALL = { title: "Install the Server", icon: "cloud-download", command: "efim-ls.install" };
const RESTART = { title: "Restart the Server", icon: "refresh", command: "efim-ls.restart" };
const CHOOSE_MODEL = { title: "Choose a Model...", icon: "library", command: "efim-ls.chooseModel" };
const LOG = { title: "Show Log", icon: "output", command: "efim-ls.showLog" };
const WAKE_UP = { title: "End Snooze", icon: "bell", command: "efim-ls.endSnooze" };

/** Remedies where no server runs, by cause. */
const WITHOUT_SERVER = {
    "not found": [INSTALL, settings(PYTHON)],
    misnamed: [settings(PYTHON), INSTALL, LOG],
    crashed: [RESTART, LOG],
} as const;

/** Return remedies for a model that is not in use although the settings name it, by what the server says of it. */
export function ofModel(message: string, { own }: Server): readonly Remedy[] {
    const lack = own ? lackIn(message) : undefined;
    const adding = lack ? [{ ...INSTALL, title: `Install ${lack.name}`, argument: message }] : [];
    return [...adding, CHOOSE_MODEL, settings(MODEL), LOG];
}

export function remedies(condition: Condition): readonly Remedy[] {
    switch (condition.kind) {
        case "starting":
        case "working":
            return [];
        case "failed":
            return WITHOUT_SERVER[condition.cause];
        case "running": {
            const { server, status } = condition;
            return status.state === "error" || status.fallback ? ofModel(status.message, server) : [];
        }
        case "snoozed":
            return [WAKE_UP];
    }
}

export async function apply({ command, argument }: Remedy): Promise<void> {
    await commands.executeCommand(command, ...(argument === undefined ? [] : [argument]));
}

/** Show a setting. On a remote machine, what the server runs with is set there. */
export async function openSetting(name: string): Promise<void> {
    const query = `${SECTION}.${name}`;
    await (env.remoteName === undefined
        ? commands.executeCommand("workbench.action.openSettings", query)
        : commands.executeCommand("workbench.action.openRemoteSettings", { query }));
}

function settings(name: string): Remedy {
    return { title: "Open Settings", icon: "gear", command: OPEN_SETTING, argument: name };
}
