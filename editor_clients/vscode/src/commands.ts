// What the commands do.
import { CancellationError, commands, window, type Disposable, type LogOutputChannel } from "vscode";
import { openSource, type ExplainView } from "./explainView";
import { setLevel } from "./levels";
import { showMenu } from "./menu";
import { chooseModel } from "./models";
import type { NextEdits } from "./nextEdits";
import type { Pages } from "./pages";
import { installServer } from "./problems";
import { lastLine, run } from "./process";
import { openSetting } from "./remedies";
import type { Service } from "./service";
import { configuration, signed } from "./settings";
import type { Snooze } from "./snooze";
import { statistics } from "./statistics";
import type { StatusBar } from "./statusBar";
import { leaveOut, switchForLanguage, switchForUser, switchForWorkspace, switchNextEdits, switchRepository } from "./switches";

const PATIENCE = 60_000; // ms
const NOT_RUNNING = "the server is not running. See the log, or restart it.";

export interface Parts {
    readonly service: Service;
    readonly snooze: Snooze;
    readonly statusBar: StatusBar;
    readonly log: LogOutputChannel;
    readonly pages: Pages;
    readonly explainView: ExplainView;
    readonly nextEdits: NextEdits;
    readonly ownEnvironment: string;
}

export function registerCommands(parts: Parts): Disposable[] {
    const { service, snooze, statusBar, log, explainView, nextEdits, ownEnvironment } = parts;
    const all: Record<string, (...values: any[]) => unknown> = {
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
        explain: () => explainView.show(),
        openSource: (path, line) => openSource(path, line),
        setSuggestions: (level) => setLevel(level),
        nextEdit: () => nextEdits.goOrMake(),
        dismissNextEdit: () => nextEdits.refuse(),
        switchNextEdits: (on) => switchNextEdits(on),
        leaveOut: (path) => leaveOut(path),
        switchRepository: (on) => switchRepository(on),
        showStatistics: () => showStatistics(parts),
        clearCache: () => clearCache(parts),
        install: (message) => installServer(parts, message),
    };
    return Object.entries(all).map(([name, act]) =>
        commands.registerCommand(`efim-ls.${name}`, (...values: unknown[]) => told(() => act(...values))),
    );
}

/** Return the command's result; show why it failed, unless the user stopped it. */
async function told(act: () => unknown): Promise<unknown> {
    try {
        return await act();
    } catch (error) {
        if (!(error instanceof CancellationError)) {
            void window.showErrorMessage(signed(error instanceof Error ? error.message : String(error)));
        }
        return undefined;
    }
}

async function showStatistics({ service, pages }: Parts): Promise<void> {
    const { condition, running } = service;
    if (condition.kind !== "running" || running === undefined) {
        throw new Error(NOT_RUNNING);
    }
    await pages.show("Statistics", statistics(running, condition.server));
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
