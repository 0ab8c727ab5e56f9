// The settings of the section `efim-ls`; all but `python` are the server's.
import { extensions, workspace, type WorkspaceConfiguration } from "vscode";

export const SECTION = "efim-ls";
export const PYTHON = "python";

export function configuration(): WorkspaceConfiguration {
    return workspace.getConfiguration(SECTION);
}

/** What a server is sent: settings that are set, and those it was sent before. The rest are its own defaults. */
export class ServerSettings {
    private readonly told = new Set<string>();

    current(): Record<string, unknown> {
        const ours = configuration();
        for (const name of declared().filter((each) => isSet(ours, each))) {
            this.told.add(name);
        }
        return Object.fromEntries([...this.told].map((name) => [name, ours.get(name)]));
    }
}

function declared(): string[] {
    const properties: object =
        extensions.getExtension("efim-ls.efim-ls")?.packageJSON.contributes.configuration.properties;
    const names = Object.keys(properties).map((name) => name.slice(SECTION.length + 1));
    return names.filter((name) => name !== PYTHON);
}

function isSet(ours: WorkspaceConfiguration, name: string): boolean {
    const found = ours.inspect(name);
    const values = [found?.globalValue, found?.workspaceValue, found?.workspaceFolderValue];
    return values.some((value) => value !== undefined);
}
