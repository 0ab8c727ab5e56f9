// The interpreter that is chosen in the Python extension, if that is installed.
import { extensions, workspace } from "vscode";

interface PythonExtension {
    readonly environments?: {
        getActiveEnvironmentPath(resource?: unknown): { readonly path: string };
        resolveEnvironment(path: unknown): Promise<{ executable: { uri?: { fsPath: string } } } | undefined>;
    };
}

export async function chosenInterpreter(): Promise<string | undefined> {
    const extension = extensions.getExtension<PythonExtension>("ms-python.python");
    // Where it fails to start, VS Code says so; the server can be elsewhere.
    const environments = (await extension?.activate().then(undefined, () => undefined))?.environments;
    const path = environments?.getActiveEnvironmentPath(workspace.workspaceFolders?.[0]?.uri);
    return path && (await environments?.resolveEnvironment(path))?.executable.uri?.fsPath;
}
