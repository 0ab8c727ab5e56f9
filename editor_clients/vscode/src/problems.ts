// What the user is told and offered if there is no server.
import { commands, ConfigurationTarget, env, window, type LogOutputChannel } from "vscode";
import { install } from "./installing";
import type { Condition, Service } from "./service";
import { configuration, PYTHON, SECTION } from "./settings";

const INSTALL = "Install";
const SETTINGS = "Open Settings";
const RESTART = "Restart";
const LOG = "Show Log";

const ACTIONS: Readonly<Record<string, () => Thenable<unknown>>> = {
    [INSTALL]: () => commands.executeCommand("efim-ls.install"),
    [SETTINGS]: openPythonSetting,
    [RESTART]: () => commands.executeCommand("efim-ls.restart"),
    [LOG]: () => commands.executeCommand("efim-ls.showLog"),
};

const REMEDIES = {
    "not found": [INSTALL, SETTINGS],
    misnamed: [SETTINGS, INSTALL, LOG],
    crashed: [RESTART, LOG],
} as const;

export async function offerRemedies(condition: Condition): Promise<void> {
    if (condition.kind === "failed") {
        const chosen = await window.showErrorMessage(`efim-ls: ${condition.message}`, ...REMEDIES[condition.cause]);
        await (chosen && ACTIONS[chosen]?.());
    }
}

/** On a remote machine the setting is that machine's. */
function openPythonSetting(): Thenable<unknown> {
    const query = `${SECTION}.${PYTHON}`;
    return env.remoteName === undefined
        ? commands.executeCommand("workbench.action.openSettings", query)
        : commands.executeCommand("workbench.action.openRemoteSettings", { query });
}

export interface Installing {
    readonly service: Service;
    readonly log: LogOutputChannel;
    readonly ownEnvironment: string;
}

/** Install the server and start it; a setting that names a Python without the server is removed. */
export async function installServer({ service, log, ownEnvironment }: Installing): Promise<void> {
    if (!(await install(ownEnvironment, log))) {
        return;
    }
    const { condition } = service;
    if (condition.kind === "failed" && condition.cause === "misnamed") {
        await forgetPython(); // a change of that setting restarts the server
    } else {
        await service.restart();
    }
}

async function forgetPython(): Promise<void> {
    const ours = configuration();
    const found = ours.inspect(PYTHON);
    const targets = [
        [found?.globalValue, ConfigurationTarget.Global],
        [found?.workspaceValue, ConfigurationTarget.Workspace],
        [found?.workspaceFolderValue, ConfigurationTarget.WorkspaceFolder],
    ] as const;
    for (const [, target] of targets.filter(([value]) => value !== undefined)) {
        await ours.update(PYTHON, undefined, target);
    }
}
