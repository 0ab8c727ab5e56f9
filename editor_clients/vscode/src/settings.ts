// The settings of the section `efim-ls`; all but two are the server's, which calls `maxLines` max_lines.
import { extensions, workspace, type WorkspaceConfiguration } from "vscode";

export const SECTION = "efim-ls";
export const PYTHON = "python";
export const NAMES = "names";
export const MODEL = "model";
export const ENGINE = "engine";

export function configuration(): WorkspaceConfiguration {
    return workspace.getConfiguration(SECTION);
}

/** What a server is sent: settings that are set, and those it was sent before. The rest are its own defaults. */
export class ServerSettings {
    private readonly told = new Set<string>();

    current(): Record<string, unknown> {
        const ours = configuration();
        for (const name of known().filter((each) => isSet(ours, each))) {
            this.told.add(name);
        }
        return Object.fromEntries([...this.told].map((name) => [serverName(name), ours.get(name)]));
    }
}

/** Return a message of the server with the settings that it names as they are called here. */
export function withOurNames(message: string): string {
    const ours = new Map(known().map((name) => [serverName(name), name]));
    return message.replace(/\b[a-z]+(_[a-z]+)+\b/g, (name) => ours.get(name) ?? name);
}

/** Return a message that begins with our name. */
export function signed(message: string): string {
    return message.startsWith(`${SECTION} `) ? message : `${SECTION}: ${message}`;
}

function serverName(name: string): string {
    return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Return whether the user or a workspace has set a value, which may be the default. */
function isSet(ours: WorkspaceConfiguration, name: string): boolean {
    const found = ours.inspect(name);
    const values = [found?.globalValue, found?.workspaceValue, found?.workspaceFolderValue];
    return values.some((value) => value !== undefined);
}

/** Return the names of the settings that the server knows. */
function known(): string[] {
    const groups: readonly { readonly properties: object }[] =
        extensions.getExtension("efim-ls.efim-ls")?.packageJSON.contributes.configuration;
    const names = groups.flatMap(({ properties }) => Object.keys(properties));
    return names.map((name) => name.slice(SECTION.length + 1)).filter((name) => name !== PYTHON && name !== NAMES);
}
