// Pages to read, rendered from Markdown next to the editor.
import { commands, EventEmitter, Uri, ViewColumn, workspace, type Disposable, type TextDocumentContentProvider } from "vscode";
import { escaped } from "./markdown";

const SCHEME = "efim-ls";
const RENDERED = "vscode.markdown.preview.editor"; // VS Code's own

/** The last page of each title. Every page is a new document, so that none has to be refreshed once it is complete. */
export class Pages implements TextDocumentContentProvider, Disposable {
    private readonly texts = new Map<string, string>();
    private readonly changed = new EventEmitter<Uri>();
    readonly onDidChange = this.changed.event;
    private readonly registration = workspace.registerTextDocumentContentProvider(SCHEME, this);
    private number = 0;

    provideTextDocumentContent({ path }: Uri): string | undefined {
        return this.texts.get(path.replace(/.*\//, ""));
    }

    /** Show a page at once, and fill in its text as soon as that is known. */
    async show(title: string, text: Promise<string>): Promise<void> {
        this.number += 1;
        const file = `${title}.md`;
        this.texts.set(file, `## ${title} of efim-ls\n\nReading...\n`);
        const uri = Uri.from({ scheme: SCHEME, path: `/${this.number}/${file}` });
        const beside = { viewColumn: ViewColumn.Beside, preserveFocus: true, preview: true };
        const opened = commands.executeCommand("vscode.openWith", uri, RENDERED, beside);
        this.texts.set(file, await text.catch((error: unknown) => `This could not be read: ${escaped(String(error))}`));
        await opened;
        this.changed.fire(uri);
    }

    dispose(): void {
        this.registration.dispose();
        this.changed.dispose();
    }
}
