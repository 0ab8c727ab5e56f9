// Runs a command to its end.
import { spawn } from "node:child_process";

export interface Finished {
    /** Null where it could not be started, or was stopped. */
    readonly code: number | null;
    readonly output: string;
    readonly errors: string;
}

/** Python is not to import from the folder that it is run in: a workspace may have any modules. */
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

/** The last line that says something. */
export function lastLine(text: string): string {
    return (
        text
            .trim()
            .split(/[\r\n]+/)
            .at(-1) ?? ""
    );
}
