// The language client: how it introduces itself to the server, and how it goes on after a crash.
import type { LogOutputChannel } from "vscode";
import {
    CloseAction,
    ErrorAction,
    LanguageClient,
    type ClientCapabilities,
    type CloseHandlerResult,
    type ErrorHandler,
    type ErrorHandlerResult,
    type Middleware,
    ShowMessageNotification,
    type ShowMessageParams,
    type StaticFeature,
} from "vscode-languageclient/node";
import type { Server } from "./finding";
import { ENVIRONMENT } from "./process";
import { SECTION, type ServerSettings } from "./settings";

/** The documents that are sent to the server, which decides which of them get suggestions. */
export const DOCUMENTS = ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme }));

export interface Ways {
    readonly log: LogOutputChannel;
    readonly settings: ServerSettings;
    readonly middleware: Middleware;
    /** Called with what the server wants the user to read. */
    readonly complain: (message: ShowMessageParams) => void;
    /** Called when the server ends by itself. */
    readonly ended: () => void;
}

export function createClient(server: Server, ways: Ways): LanguageClient {
    const client = new QuietClient(
        SECTION,
        SECTION,
        { command: server.command, args: [...server.args, "serve"], options: { env: ENVIRONMENT } },
        {
            documentSelector: DOCUMENTS,
            initializationOptions: () => ways.settings.current(),
            outputChannel: ways.log,
            middleware: ways.middleware,
            errorHandler: new Ending(ways.ended),
            initializationFailedHandler: () => false,
        },
    );
    client.registerFeature(new Wishes());
    client.onNotification(ShowMessageNotification.type, ways.complain);
    return client;
}

/** Logs what goes wrong, without a popup: the status bar shows it, and the service says what to do. */
class QuietClient extends LanguageClient {
    override error(message: string, data?: unknown): void {
        super.error(message, data, false);
    }
}

/**
 * Asks for notifications of better suggestions and of the server's status. The status includes the progress of loading,
 * so another progress display would be too much.
 */
class Wishes implements StaticFeature {
    fillClientCapabilities(capabilities: ClientCapabilities): void {
        capabilities.experimental = { ...capabilities.experimental, efimStatus: true, efimImprovedSuggestions: true };
        capabilities.window = { ...capabilities.window, workDoneProgress: false };
    }

    initialize(): void {}

    getState(): { kind: "static" } {
        return { kind: "static" };
    }

    clear(): void {}
}

/** Leaves restarting to who started the server. */
class Ending implements ErrorHandler {
    constructor(private readonly ended: () => void) {}

    error(): ErrorHandlerResult {
        return { action: ErrorAction.Continue, handled: true };
    }

    closed(): CloseHandlerResult {
        this.ended();
        return { action: CloseAction.DoNotRestart, handled: true };
    }
}
