// The item in the status bar, for the server and the document in front.
import { Disposable, StatusBarAlignment, window, workspace, type LogOutputChannel, type StatusBarItem } from "vscode";
import { appearance } from "./appearance";
import { editorInFront, identified } from "./presence";
import type { Condition, Service } from "./service";
import type { Snooze } from "./snooze";
import { STATUS, type Status } from "./status";

const CALM = 500; // ms without work after which the item rests: while typing it does not flicker
const MENU = "efim-ls.showMenu";

export class StatusBar implements Disposable {
    private readonly item: StatusBarItem = window.createStatusBarItem("status", StatusBarAlignment.Right, 100);
    private readonly subscriptions: Disposable;
    private state = "";
    /** What the server says of the document in front. */
    private ofDocument: Status | undefined;
    private resting: NodeJS.Timeout | undefined;
    private work: string | undefined;

    constructor(
        private readonly service: Service,
        private readonly snooze: Snooze,
        private readonly log: LogOutputChannel,
    ) {
        this.item.name = "efim-ls";
        this.item.command = MENU;
        this.subscriptions = Disposable.from(
            this.item,
            service.onDidChange((condition) => this.take(condition)),
            snooze.onDidChange(() => this.draw()),
            window.onDidChangeActiveTextEditor(() => this.ask()),
            workspace.onDidOpenTextDocument(() => this.ask()), // also when a document's language changes
        );
        this.draw();
        this.item.show();
    }

    dispose(): void {
        clearTimeout(this.resting);
        this.subscriptions.dispose();
    }

    /** Show work for which the user waits, in place of the server's condition; nothing once it has ended. */
    working(message?: string): void {
        this.work = message;
        this.draw();
    }

    /** Ask the server for the status of the document in front. */
    ask(): void {
        this.asked().then(
            (status) => {
                this.ofDocument = status;
                this.draw();
            },
            (error) => this.log.error(error),
        );
    }

    private async asked(): Promise<Status | undefined> {
        const document = editorInFront()?.document;
        return document ? await this.service.running?.sendRequest<Status>(STATUS, identified(document)) : undefined;
    }

    private take(condition: Condition): void {
        const state = condition.kind === "running" ? condition.status.state : condition.kind;
        const changed = state !== this.state;
        this.state = state;
        if (changed) {
            this.ask();
        }
        if (changed || (condition.kind === "running" && condition.status.busy)) {
            this.draw();
        } else {
            this.resting ??= setTimeout(() => this.draw(), CALM);
        }
    }

    private draw(): void {
        clearTimeout(this.resting);
        this.resting = undefined;
        const { text, label, tooltip, background } = appearance(this.condition);
        this.item.text = text;
        this.item.accessibilityInformation = { label };
        this.item.tooltip = tooltip;
        this.item.backgroundColor = background;
    }

    /** The server's condition for the document in front. */
    get condition(): Condition {
        const now = this.service.condition;
        if (this.work !== undefined) {
            return { kind: "working", message: this.work };
        }
        if (now.kind !== "running" || now.status.state !== "ready") {
            return now;
        }
        const { ofDocument } = this;
        if (ofDocument?.state === "off") {
            return { ...now, status: ofDocument };
        }
        const { until } = this.snooze;
        return until ? { kind: "snoozed", until } : { ...now, status: { ...now.status, notice: ofDocument?.notice ?? null } };
    }
}
