// Runs a command to its end.
import { spawn } from "node:child_process";

export interface Finished {
    /** Null if the command could not be started, or was stopped. */
    readonly code: number | null;
    readonly output: string;
    readonly errors: string;
}

/** Python must not import from the folder it runs in: a workspace may hold any modules. */
export const ENVIRONMENT = { ...process.env, PYTHONSAFEPATH: "1", PYTHONUTF8: "1" };

export function run(
    command: string,
    args: readonly string[],
    options: { signal: AbortSignal; onText?: (text: string) => void },
): Promise<Finished> {
    const child = spawn(command, args, {
        cwd: __dirname,
        env: ENVIRONMENT,
        signal: options.signal,
        stdio: ["ignore", "pipe", "pipe"],
        windowsHide: true,
    });
    let output = "";
    let errors = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        options.onText?.(text);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
        errors += text;
        options.onText?.(text);
    });
    return new Promise((resolve) => {
        child.on("error", (error) => resolve({ code: null, output, errors: errors || error.message }));
        child.on("close", (code) => resolve({ code, output, errors }));
    });
}

/** Return the last line that is not empty. */
export function lastLine(text: string): string {
    return (
        text
            .trim()
            .split(/[\r\n]+/)
            .at(-1) ?? ""
    );
}
