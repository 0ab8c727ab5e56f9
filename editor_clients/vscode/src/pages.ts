// Pages to read, rendered from Markdown next to the editor.
import { commands, Uri, ViewColumn, workspace, type Disposable, type TextDocumentContentProvider } from "vscode";

const SCHEME = "efim-ls";
const RENDERED = "vscode.markdown.preview.editor"; // VS Code's own

/** The last page of each title. Every page is a new document, so that none has to be refreshed. */
export class Pages implements TextDocumentContentProvider, Disposable {
    private readonly texts = new Map<string, string>();
    private readonly registration = workspace.registerTextDocumentContentProvider(SCHEME, this);
    private number = 0;

    provideTextDocumentContent({ path }: Uri): string | undefined {
        return this.texts.get(path.replace(/.*\//, ""));
    }

    async show(title: string, text: string): Promise<void> {
        this.number += 1;
        const file = `${title}.md`;
        this.texts.set(file, text);
        const uri = Uri.from({ scheme: SCHEME, path: `/${this.number}/${file}` });
        const beside = { viewColumn: ViewColumn.Beside, preserveFocus: true, preview: true };
        await commands.executeCommand("vscode.openWith", uri, RENDERED, beside);
    }

    dispose(): void {
        this.registration.dispose();
    }
}
