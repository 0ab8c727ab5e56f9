// Installs the server with pip into an environment of the extension's own.
import { CancellationError, ProgressLocation, window, type LogOutputChannel, type Progress } from "vscode";
import { interpreterIn } from "./finding";
import { lastLine, run, type Finished } from "./process";

const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];
const NEW_ENOUGH = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"];

/** Install or update it; CancellationError where the user stops that, another error that tells what failed. */
export async function install(environment: string, log: LogOutputChannel): Promise<void> {
    const options = { location: ProgressLocation.Notification, title: "efim-ls", cancellable: true };
    await window.withProgress(options, async (progress, token) => {
        const stopping = new AbortController();
        token.onCancellationRequested(() => stopping.abort());
        const installation = new Installation(environment, log, progress, stopping.signal);
        try {
            await installation.run();
        } catch (error) {
            throw stopping.signal.aborted ? new CancellationError() : error;
        }
    });
}

class Installation {
    constructor(
        private readonly environment: string,
        private readonly log: LogOutputChannel,
        private readonly progress: Progress<{ message: string }>,
        private readonly signal: AbortSignal,
    ) {}

    async run(): Promise<void> {
        const python = interpreterIn(this.environment);
        if (!(await this.succeeds(python, NEW_ENOUGH))) {
            await this.step("making a Python environment", await this.anyPython(), [
                ...["-m", "venv", "--clear"],
                this.environment,
            ]);
        }
        const what = "installing the server: 1 GB or more, most of it PyTorch";
        await this.step(what, python, ["-m", "pip", "install", "--upgrade", "--no-input", "efim-ls"]);
        await this.step("looking at what was installed", python, ["-m", "efim_ls", "--version"]);
    }

    private async anyPython(): Promise<string> {
        for (const python of PYTHONS) {
            if (await this.succeeds(python, NEW_ENOUGH)) {
                return python;
            }
        }
        this.signal.throwIfAborted();
        throw new Error("no Python 3.11 or newer is on the PATH: install one, and try again");
    }

    private async succeeds(command: string, args: readonly string[]): Promise<boolean> {
        return (await run(command, args, { signal: this.signal })).code === 0;
    }

    private async step(what: string, command: string, args: readonly string[]): Promise<void> {
        this.progress.report({ message: what });
        this.log.info(`${what}: ${command} ${args.join(" ")}`);
        const onText = (text: string): void => this.log.append(text);
        const finished = await run(command, args, { signal: this.signal, onText });
        if (finished.code !== 0) {
            this.signal.throwIfAborted();
            throw new Error(`${what} failed: ${cause(finished)}`);
        }
    }
}

function cause({ output, errors }: Finished): string {
    const told = errors.split(/\r?\n/).filter((line) => line.startsWith("ERROR:"));
    return told[0]?.slice("ERROR:".length).trim() ?? lastLine(errors || output);
}
