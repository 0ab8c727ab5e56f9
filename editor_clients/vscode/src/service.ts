// One server at a time: found, started, asked for its status, and replaced.
import { once } from "node:events";
import { Disposable, EventEmitter, type CancellationToken, type LogOutputChannel } from "vscode";
import {
    DidChangeConfigurationNotification,
    State,
    type LanguageClient,
    type ShowMessageParams,
} from "vscode-languageclient/node";
import { createClient } from "./client";
import { findServer, NoServer, type Server } from "./finding";
import type { Names } from "./names";
import { ServerSettings } from "./settings";
import { DID_CHANGE_STATUS, STATUS, type Status } from "./status";
import { DID_IMPROVE_SUGGESTION, type Improved, type Suggestions } from "./suggestions";

export type Condition =
    | { readonly kind: "starting" }
    | { readonly kind: "running"; readonly server: Server; readonly status: Status }
    | { readonly kind: "failed"; readonly message: string; readonly cause: Cause }
    | { readonly kind: "snoozed"; readonly until: Date } // of the window, not of the server, as the next one
    | { readonly kind: "working"; readonly message: string };
/** Why no server runs. */
export type Cause = NoServer["cause"] | "crashed";

const MOST_RESTARTS = 4;
const IN_MINUTES = 3;
const LEAVING = 5_000; // ms in which a stopping server saves its keys and values

export class Service implements Disposable {
    private readonly changed = new EventEmitter<Condition>();
    readonly onDidChange = this.changed.event;
    private readonly started = new EventEmitter<void>();
    /** Fires when a server runs that knows nothing about this window yet. */
    readonly onDidStart = this.started.event;
    private current: Condition = { kind: "starting" };
    private client: LanguageClient | undefined;
    private settings = new ServerSettings();
    private queue: Promise<void> = Promise.resolve();
    private ends: number[] = [];

    constructor(
        private readonly ownEnvironment: string,
        private readonly log: LogOutputChannel,
        private readonly suggestions: Suggestions,
        private readonly names: Names,
        private readonly complain: (message: ShowMessageParams, server: Server) => void,
    ) {}

    get condition(): Condition {
        return this.current;
    }

    /** The client, while it can be asked. */
    get running(): LanguageClient | undefined {
        return this.client?.state === State.Running ? this.client : undefined;
    }

    /** Stop the server, do something that it must not see, then look for a server again and start it. */
    restart(between?: () => Promise<void>): Promise<void> {
        this.ends = [];
        return this.replace(between);
    }

    /** Wait until the model is loaded, or until the wait is cancelled. */
    loaded(token: CancellationToken): Promise<void> {
        return new Promise((resolve) => {
            const waiting = Disposable.from(
                token.onCancellationRequested(() => look()),
                this.onDidChange(() => look()),
            );
            const look = (): void => {
                const { current } = this;
                if (
                    token.isCancellationRequested ||
                    current.kind !== "running" ||
                    current.status.state !== "loading"
                ) {
                    waiting.dispose();
                    resolve();
                }
            };
            look();
        });
    }

    /** Wait until another server than now is ready, or cannot be; return that condition. */
    settled(): Promise<Condition> {
        return new Promise((resolve) => {
            let restarted = false;
            const waiting = this.onDidChange((condition) => {
                restarted ||= condition.kind === "starting";
                const loading = condition.kind === "running" && condition.status.state === "loading";
                if (restarted && condition.kind !== "starting" && !loading) {
                    waiting.dispose();
                    resolve(condition);
                }
            });
        });
    }

    async dispose(): Promise<void> {
        await this.queue;
        await this.stop();
        this.changed.dispose();
        this.started.dispose();
    }

    async pushSettings(): Promise<void> {
        const settings = this.settings.current();
        await this.running?.sendNotification(DidChangeConfigurationNotification.type, { settings });
    }

    private replace(between: () => Promise<void> = async () => {}): Promise<void> {
        const done = this.queue.then(async () => {
            this.become({ kind: "starting" });
            await this.stop();
            await between().finally(() => this.start());
        });
        this.queue = done.catch(() => {});
        return done;
    }

    private async start(): Promise<void> {
        try {
            const server = await findServer(this.ownEnvironment);
            this.log.info(`server ${server.version}: ${server.command} ${server.args.join(" ")}`);
            await this.launch(server);
        } catch (error) {
            this.fail(
                error instanceof Error ? error.message : String(error),
                error instanceof NoServer ? error.cause : "crashed",
            );
        }
    }

    private async launch(server: Server): Promise<void> {
        this.settings = new ServerSettings();
        const { log, settings } = this;
        const client = createClient(server, {
            log,
            settings,
            middleware: { ...this.suggestions.middleware, ...this.names.middleware },
            complain: (message) => this.complain(message, server),
            ended: () => this.lost(client),
        });
        const adopt = (status: Status): void => {
            if (client === this.client) {
                this.become({ kind: "running", server, status });
            }
        };
        this.client = client;
        client.onNotification(DID_CHANGE_STATUS, adopt);
        client.onNotification(DID_IMPROVE_SUGGESTION, (improved: Improved) => this.suggestions.renew(improved));
        try {
            await client.start();
            this.started.fire();
            adopt(await client.sendRequest<Status>(STATUS, {}));
        } catch (error) {
            log.error(`the server could not be started: ${error}`);
            this.lost(client);
        }
    }

    /** Restart a server that ended, unless it does so again and again. */
    private lost(client: LanguageClient): void {
        if (client !== this.client) {
            return;
        }
        this.client = undefined;
        const now = Date.now();
        this.ends = [...this.ends.filter((end) => now - end < IN_MINUTES * 60_000), now];
        if (this.ends.length <= MOST_RESTARTS) {
            void this.replace();
        } else {
            this.fail(
                `the server ended ${this.ends.length} times in ${IN_MINUTES} minutes. See the log, then restart it.`,
                "crashed",
            );
        }
    }

    private async stop(): Promise<void> {
        const client = this.client;
        this.client = undefined;
        const leaving = client?.serverProcess;
        await client?.dispose().catch((error) => this.log.warn(`the server did not say goodbye: ${error}`));
        if (leaving?.exitCode === null && leaving.signalCode === null) {
            await once(leaving, "exit", { signal: AbortSignal.timeout(LEAVING) }).catch(() =>
                leaving.kill("SIGKILL"),
            );
        }
    }

    private fail(message: string, cause: Cause): void {
        this.log.error(message);
        this.become({ kind: "failed", message, cause });
    }

    private become(condition: Condition): void {
        this.current = condition;
        this.changed.fire(condition);
    }
}
