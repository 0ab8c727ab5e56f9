// Finds the server: the first Python or executable, in a fixed order, that has it.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { workspace } from "vscode";
import { LIGHT } from "./bundle";
import { chosenInterpreter } from "./interpreter";
import { lastLine, run } from "./process";
import { PYTHON, SECTION, configuration } from "./settings";

export interface Candidate {
    readonly command: string;
    readonly args: readonly string[];
    /** Whether it is in the environment that the extension makes. */
    readonly own?: boolean;
}

export interface Server extends Candidate {
    readonly version: string;
}

/** Why there is no server: the cause and the remedy, for people. */
export class NoServer extends Error {
    constructor(
        message: string,
        override readonly cause: "not found" | "misnamed",
    ) {
        super(message);
    }
}

const WINDOWS = process.platform === "win32";
const PATIENCE = 20_000; // ms: Python on a cold disk

/** Return the first candidate that has the server. If the setting names a Python, it is the only candidate. */
export async function findServer(ownEnvironment: string): Promise<Server> {
    const named = configuration().get<string>(PYTHON, "");
    if (named !== "") {
        return await namedServer(named.replace(/^~(?=[/\\])/, homedir()));
    }
    for await (const candidate of candidates(ownEnvironment)) {
        const version = await versionOf(candidate);
        if (version.found !== undefined) {
            return { ...candidate, version: version.found };
        }
    }
    throw new NoServer(
        `${SECTION} needs its server. It comes with the extension, and pip fetches the packages that it needs: ${LIGHT}.`,
        "not found",
    );
}

export function interpreterIn(environment: string): string {
    return WINDOWS ? join(environment, "Scripts", "python.exe") : join(environment, "bin", "python");
}

async function namedServer(python: string): Promise<Server> {
    const remedy = `Correct the setting ${SECTION}.${PYTHON}, or empty it to let the extension look for the server.`;
    if (!isAbsolute(python)) {
        throw new NoServer(`${python} is not a full path. ${remedy}`, "misnamed");
    }
    if (!existsSync(python)) {
        throw new NoServer(`${python} does not exist. ${remedy}`, "misnamed");
    }
    const candidate = ofPython(python);
    const version = await versionOf(candidate);
    if (version.found === undefined) {
        throw new NoServer(
            `${python} has no efim-ls (${version.cause}). ${remedy}`,
            "misnamed",
        );
    }
    return { ...candidate, version: version.found };
}

async function* candidates(ownEnvironment: string): AsyncGenerator<Candidate> {
    if (workspace.isTrusted) {
        yield* environmentsOfTheWorkspace().filter(existsSync).map(ofPython);
        const chosen = await chosenInterpreter();
        yield* chosen === undefined ? [] : [ofPython(chosen)];
    }
    yield* onPath()
        .filter(existsSync)
        .map((command) => ({ command, args: [] }));
    const own = interpreterIn(ownEnvironment);
    yield* existsSync(own) ? [{ ...ofPython(own), own: true }] : [];
}

function environmentsOfTheWorkspace(): string[] {
    const folders = workspace.workspaceFolders ?? [];
    return folders.flatMap(({ uri }) => [".venv", "venv"].map((name) => interpreterIn(join(uri.fsPath, name))));
}

function onPath(): string[] {
    const folders = (process.env["PATH"] ?? "").split(delimiter).filter(isAbsolute);
    return folders.map((folder) => join(folder, WINDOWS ? "efim-ls.exe" : "efim-ls"));
}

function ofPython(python: string): Candidate {
    return { command: python, args: ["-m", "efim_ls"] };
}

async function versionOf({ command, args }: Candidate): Promise<{ found?: string; cause: string }> {
    const said = await run(command, [...args, "--version"], { signal: AbortSignal.timeout(PATIENCE) });
    const found = /^efim-ls (\d\S*)/m.exec(said.output)?.[1];
    return found === undefined
        ? { cause: lastLine(said.errors) || "it reports no version" }
        : { found, cause: "" };
}
