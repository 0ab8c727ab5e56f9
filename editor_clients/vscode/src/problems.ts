// Messages to the user, with remedies, if there is no server or if the server complains.
import { ConfigurationTarget, window, type LogOutputChannel } from "vscode";
import { MessageType, type ShowMessageParams } from "vscode-languageclient/node";
import type { Server } from "./finding";
import { install, lackIn } from "./installing";
import { apply, ofModel, remedies, type Remedy } from "./remedies";
import type { Condition, Service } from "./service";
import { configuration, PYTHON, signed, withOurNames } from "./settings";
import type { StatusBar } from "./statusBar";

export async function offerRemedies(condition: Condition): Promise<void> {
    if (condition.kind === "failed") {
        const show = condition.cause === "not found" ? window.showInformationMessage : window.showErrorMessage;
        await offer(show, signed(condition.message), remedies(condition));
    }
}

/** Show a message of the server: an error is a model that could not be loaded, anything else a wrong setting. */
export async function complain({ type, message }: ShowMessageParams, server: Server): Promise<void> {
    const [show, offered] =
        type === MessageType.Error
            ? ([window.showErrorMessage, ofModel(message, server)] as const)
            : ([window.showWarningMessage, []] as const);
    await offer(show, withOurNames(message), offered);
}

async function offer(
    show: (message: string, ...titles: string[]) => Thenable<string | undefined>,
    message: string,
    offered: readonly Remedy[],
): Promise<void> {
    const chosen = await show(message, ...offered.map(({ title }) => title));
    const remedy = offered.find(({ title }) => title === chosen);
    await (remedy && apply(remedy));
}

export interface Installing {
    readonly service: Service;
    readonly log: LogOutputChannel;
    readonly ownEnvironment: string;
    readonly statusBar: StatusBar;
}

/** Install the server, or the package that it lacks by its `message`, and start it; a setting that names a Python
 * without the server is removed. */
export async function installServer(
    { service, log, ownEnvironment, statusBar }: Installing,
    message = "",
): Promise<void> {
    if (!(await install(ownEnvironment, log, (work) => statusBar.working(work), lackIn(message)))) {
        return;
    }
    void service.settled().then(welcome);
    const { condition } = service;
    if (condition.kind === "failed" && condition.cause === "misnamed") {
        await forgetPython(); // a change of that setting restarts the server
    } else {
        await service.restart();
    }
}

/** Say that all is well and what to do next, unless something else is to be said of this server. */
function welcome(condition: Condition): void {
    if (condition.kind === "running" && condition.status.state === "ready" && !condition.status.fallback) {
        void window.showInformationMessage("efim-ls is ready. Grey text is a suggestion; Tab accepts it.");
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
