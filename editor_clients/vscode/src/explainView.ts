// The view that explains the suggestion at the cursor, and follows the cursor while it can be seen.
import { randomBytes } from "node:crypto";
import {
    Disposable,
    ViewColumn,
    window,
    workspace,
    Uri,
    Range,
    type TextEditor,
    type WebviewPanel,
} from "vscode";
import { explain } from "./explain";
import { explanationPage, OPEN_SOURCE, sources, type Action } from "./explainPage";
import { editorInFront } from "./presence";
import type { Service } from "./service";
import { configuration } from "./settings";
import { patternFor } from "./switches";

const PAUSE = 250; // ms without a move or an answer after which the view follows
const MOST_FOLDERS = 3; // that are offered to be left out

export const LEAVE_OUT = "efim-ls.leaveOut";
export const SWITCH_REPOSITORY = "efim-ls.switchRepository";
const EXPLAIN = "efim-ls.explain";

export class ExplainView implements Disposable {
    private panel: WebviewPanel | undefined;
    private timer: NodeJS.Timeout | undefined;
    private readonly subscriptions: Disposable;

    constructor(private readonly service: Service) {
        this.subscriptions = Disposable.from(
            window.onDidChangeTextEditorSelection(() => this.follow()),
            window.onDidChangeActiveTextEditor((editor) => editor && this.follow()),
            service.onDidChange(() => this.follow()),
        );
    }

    /** Show the view next to the editor, explaining the place of its cursor; return the page. */
    async show(): Promise<string> {
        const editor = editorInFront();
        if (editor === undefined) {
            throw new Error("no file is open. Open one, and put the cursor where you want an explanation.");
        }
        const html = await this.explained(editor);
        this.panel ??= this.opened();
        this.panel.webview.html = html;
        this.panel.reveal(undefined, true);
        return html;
    }

    dispose(): void {
        clearTimeout(this.timer);
        this.panel?.dispose();
        this.subscriptions.dispose();
    }

    /** Refresh the page once nothing has happened for a moment. */
    private follow(): void {
        clearTimeout(this.timer);
        if (this.panel?.visible) {
            this.timer = setTimeout(() => void this.refresh(), PAUSE);
        }
    }

    private async refresh(): Promise<void> {
        const editor = editorInFront();
        if (editor !== undefined && this.service.running !== undefined) {
            const html = await this.explained(editor).catch(() => undefined); // the button says what fails
            if (html !== undefined && this.panel !== undefined) {
                this.panel.webview.html = html;
            }
        }
    }

    private async explained({ document, selection: { active } }: TextEditor): Promise<string> {
        const client = this.service.running;
        if (client === undefined) {
            throw new Error("the server is not running. See the log, or restart it.");
        }
        const { sections } = await explain(client, document, active);
        const actions = [{ title: "Refresh", command: EXPLAIN }, ...offers(sources(sections))];
        return explanationPage(sections, actions, (path) => workspace.asRelativePath(path), randomBytes(16).toString("base64"));
    }

    private opened(): WebviewPanel {
        const beside = { viewColumn: ViewColumn.Beside, preserveFocus: true };
        const panel = window.createWebviewPanel(EXPLAIN, "Explain Suggestion", beside, {
            enableScripts: false,
            enableCommandUris: [EXPLAIN, OPEN_SOURCE, LEAVE_OUT, SWITCH_REPOSITORY],
            localResourceRoots: [],
        });
        panel.onDidDispose(() => {
            this.panel = undefined;
        });
        return panel;
    }
}

/** Show a line of a file where the user edits. */
export async function openSource(path: string, line: number): Promise<void> {
    const selection = new Range(line - 1, 0, line - 1, 0);
    const viewColumn = editorInFront()?.viewColumn ?? ViewColumn.One;
    await window.showTextDocument(Uri.file(path), { selection, viewColumn });
}

/** Return what can be switched off where these files weighed in a suggestion, or on again. */
function offers(paths: readonly string[]): Action[] {
    const remembers = configuration().get("otherFiles") !== "off";
    const patterns = new Map(paths.map((path) => [patternFor(path), path]));
    const folders = [...patterns].slice(0, MOST_FOLDERS);
    return [
        ...folders.map(([pattern, path]) => ({ title: `Never from ${pattern}`, command: LEAVE_OUT, argument: path })),
        {
            title: `Switch the repository's memory ${remembers ? "off" : "on"}`,
            command: SWITCH_REPOSITORY,
            argument: !remembers,
        },
    ];
}
