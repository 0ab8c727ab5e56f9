// What the commands do.
import { CancellationError, commands, window, type Disposable, type LogOutputChannel } from "vscode";
import { explanation } from "./explain";
import { showMenu } from "./menu";
import { chooseModel } from "./models";
import { editorInFront } from "./presence";
import type { Pages } from "./pages";
import { installServer } from "./problems";
import { lastLine, run } from "./process";
import { openSetting } from "./remedies";
import type { Service } from "./service";
import { configuration } from "./settings";
import type { Snooze } from "./snooze";
import { statistics } from "./statistics";
import type { StatusBar } from "./statusBar";
import { switchForLanguage, switchForUser, switchForWorkspace } from "./switches";

const PATIENCE = 60_000; // ms
const NOT_RUNNING = "the server is not running. See the log, or restart it.";

export interface Parts {
    readonly service: Service;
    readonly snooze: Snooze;
    readonly statusBar: StatusBar;
    readonly log: LogOutputChannel;
    readonly pages: Pages;
    readonly ownEnvironment: string;
}

export function registerCommands(parts: Parts): Disposable[] {
    const { service, snooze, statusBar, log, ownEnvironment } = parts;
    const all: Record<string, (argument: string) => unknown> = {
        enable: () => switchForUser(true),
        disable: () => switchForUser(false),
        enableForWorkspace: () => switchForWorkspace(true),
        disableForWorkspace: () => switchForWorkspace(false),
        enableForLanguage: () => switchForLanguage(true),
        disableForLanguage: () => switchForLanguage(false),
        restart: () => service.restart(),
        showLog: () => log.show(),
        showMenu: () => showMenu(statusBar.condition, service.running !== undefined),
        openSetting: (name) => openSetting(name),
        chooseModel: () => chooseModel(service, ownEnvironment),
        snooze: () => snooze.prolong(),
        endSnooze: () => snooze.stop(),
        explain: () => explain(parts),
        showStatistics: () => showStatistics(parts),
        clearCache: () => clearCache(parts),
        install: () => installServer(parts),
    };
    return Object.entries(all).map(([name, act]) =>
        commands.registerCommand(`efim-ls.${name}`, (argument: string) => told(() => act(argument))),
    );
}

/** Show why a command failed, unless the user stopped it. */
async function told(act: () => unknown): Promise<void> {
    try {
        await act();
    } catch (error) {
        if (!(error instanceof CancellationError)) {
            void window.showErrorMessage(`efim-ls: ${error instanceof Error ? error.message : String(error)}`);
        }
    }
}

async function explain({ service, pages }: Parts): Promise<void> {
    const editor = editorInFront();
    const client = service.running;
    if (editor === undefined) {
        throw new Error("no file is open. Open one, and put the cursor where you want an explanation.");
    }
    if (client === undefined) {
        throw new Error(NOT_RUNNING);
    }
    await pages.show("Explain Suggestion", await explanation(client, editor.document, editor.selection.active));
}

async function showStatistics({ service, pages }: Parts): Promise<void> {
    const { condition, running } = service;
    if (condition.kind !== "running" || running === undefined) {
        throw new Error(NOT_RUNNING);
    }
    await pages.show("Statistics", await statistics(running, condition.server));
}

async function clearCache({ service }: Parts): Promise<void> {
    const { condition } = service;
    if (condition.kind !== "running") {
        throw new Error(NOT_RUNNING);
    }
    const { command, args } = condition.server;
    const detail = "Everything that was computed is removed from disk. The first suggestions will take longer.";
    if (
        (await window.showWarningMessage("Clear the cache of efim-ls?", { modal: true, detail }, "Clear")) !== "Clear"
    ) {
        return;
    }
    await service.restart(async () => {
        const folder = configuration().get<string>("cacheFolder", "");
        const signal = AbortSignal.timeout(PATIENCE);
        const done = await run(command, [...args, "cache", "clear", "--folder", folder], { signal });
        if (done.code !== 0) {
            throw new Error(`the cache could not be cleared: ${lastLine(done.errors)}`);
        }
        void window.showInformationMessage(`efim-ls: ${lastLine(done.output)}`);
    });
}
