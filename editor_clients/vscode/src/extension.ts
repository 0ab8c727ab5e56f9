// Wires the parts together.
import { join } from "node:path";
import { window, workspace, type ConfigurationChangeEvent, type ExtensionContext } from "vscode";
import { registerCommands } from "./commands";
import { ExplainView } from "./explainView";
import { Names } from "./names";
import { NextEdits } from "./nextEdits";
import { Pages } from "./pages";
import { Presence } from "./presence";
import { complain, offerRemedies } from "./problems";
import { Service } from "./service";
import { SECTION } from "./settings";
import { Snooze } from "./snooze";
import { StatusBar } from "./statusBar";
import { Suggestions, type Asked } from "./suggestions";
import { updateContext } from "./switches";

let service: Service | undefined;

export function activate(context: ExtensionContext): void {
    const log = window.createOutputChannel("efim-ls", { log: true });
    const ownEnvironment = join(context.globalStorageUri.fsPath, "server");
    const server: Asked = {
        notify: (method, params) => {
            running.running?.sendNotification(method, params).catch((error) => log.error(error));
        },
        loaded: (token) => running.loaded(token),
        snoozed: () => snooze.until !== undefined,
    };
    const snooze = new Snooze();
    const suggestions = new Suggestions(server);
    const names = new Names(server);
    const running = new Service(ownEnvironment, log, suggestions, names, complain);
    service = running;
    const nextEdits = new NextEdits({
        running: () => running.running,
        snoozed: () => snooze.until !== undefined,
        failed: (error) => log.error(`a next edit was not offered: ${error}`),
    });
    const statusBar = new StatusBar(running, snooze, log);
    const presence = new Presence(server);
    const pages = new Pages();
    const explainView = new ExplainView(running);
    const refresh = (): void => void updateContext(running.running !== undefined, snooze.until !== undefined);
    context.subscriptions.push(
        log,
        pages,
        explainView,
        nextEdits,
        snooze,
        statusBar,
        presence,
        ...registerCommands({ service: running, snooze, statusBar, log, pages, explainView, nextEdits, ownEnvironment }),
        workspace.onDidChangeTextDocument((event) => suggestions.follow(event)),
        workspace.onDidChangeTextDocument((event) => names.follow(event)),
        workspace.onDidChangeConfiguration((event) => adopt(event, running, statusBar, refresh)),
        workspace.onDidGrantWorkspaceTrust(() => running.restart()),
        workspace.onDidOpenTextDocument(refresh),
        window.onDidChangeActiveTextEditor(refresh),
        running.onDidChange(refresh),
        snooze.onDidChange(refresh),
        snooze.onDidChange(() => nextEdits.refresh()),
        workspace.onDidChangeConfiguration((event) => event.affectsConfiguration(SECTION) && nextEdits.refresh()),
        running.onDidChange(offerRemedies),
        running.onDidStart(() => presence.introduce()),
    );
    refresh();
    void running.restart();
}

export async function deactivate(): Promise<void> {
    await service?.dispose();
}

/** Restart the server if a setting changed that it reads once, or that names it; send it any other change. */
async function adopt(
    event: ConfigurationChangeEvent,
    running: Service,
    statusBar: StatusBar,
    refresh: () => void,
): Promise<void> {
    if (!event.affectsConfiguration(SECTION)) {
        return;
    }
    refresh();
    if (["python", "menu"].some((name) => event.affectsConfiguration(`${SECTION}.${name}`))) {
        await running.restart();
    } else {
        await running.pushSettings();
        statusBar.ask();
    }
}
