// Installs the server with pip, from a clone of its repository, into an environment of the extension's own.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CancellationError, ProgressLocation, window, type LogOutputChannel, type Progress } from "vscode";
import { interpreterIn } from "./finding";
import { lastLine, run, type Finished } from "./process";

const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];
const CONSTRAINTS = "constraints.txt"; // pins torch: without it pip may fetch gigabytes for GPUs
const NEW_ENOUGH = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"];

/** Install or update the server; CancellationError if the user stops it, else an error that names what failed. */
export async function install(environment: string, log: LogOutputChannel): Promise<void> {
    const clone = await chooseClone();
    const options = { location: ProgressLocation.Notification, title: "efim-ls", cancellable: true };
    await window.withProgress(options, async (progress, token) => {
        const stopping = new AbortController();
        token.onCancellationRequested(() => stopping.abort());
        const installation = new Installation(clone, environment, log, progress, stopping.signal);
        try {
            await installation.run();
        } catch (error) {
            throw stopping.signal.aborted ? new CancellationError() : error;
        }
    });
}

/** No registry has the server, so that the user names a clone of its repository. */
async function chooseClone(): Promise<string> {
    const title = "Choose the folder of efim-ls: a clone of its repository";
    const [chosen] =
        (await window.showOpenDialog({
            canSelectFiles: false,
            canSelectFolders: true,
            openLabel: "Install",
            title,
        })) ?? [];
    if (chosen === undefined) {
        throw new CancellationError();
    }
    if (!existsSync(join(chosen.fsPath, CONSTRAINTS))) {
        throw new Error(
            `${chosen.fsPath} is not a clone of efim-ls. Choose the folder that has ${CONSTRAINTS} in it.`,
        );
    }
    return chosen.fsPath;
}

class Installation {
    constructor(
        private readonly clone: string,
        private readonly environment: string,
        private readonly log: LogOutputChannel,
        private readonly progress: Progress<{ message: string }>,
        private readonly signal: AbortSignal,
    ) {}

    async run(): Promise<void> {
        const python = interpreterIn(this.environment);
        if (!(await this.succeeds(python, NEW_ENOUGH))) {
            await this.step("creating a Python environment", await this.anyPython(), [
                ...["-m", "venv", "--clear"],
                this.environment,
            ]);
        }
        await this.step("installing the server (about 1 GB, most of it PyTorch)", python, [
            ...["-m", "pip", "install", "--upgrade", "--no-input"],
            ...["--constraint", join(this.clone, CONSTRAINTS), this.clone],
        ]);
        await this.step("checking what was installed", python, ["-m", "efim_ls", "--version"]);
    }

    private async anyPython(): Promise<string> {
        for (const python of PYTHONS) {
            if (await this.succeeds(python, NEW_ENOUGH)) {
                return python;
            }
        }
        this.signal.throwIfAborted();
        throw new Error("no Python 3.11 or newer was found on the PATH. Install one, and try again.");
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
            throw new Error(`${what} failed: ${cause(finished)}. See the log.`);
        }
    }
}

function cause({ output, errors }: Finished): string {
    const told = errors.split(/\r?\n/).filter((line) => line.startsWith("ERROR:"));
    return told[0]?.slice("ERROR:".length).trim() ?? lastLine(errors || output);
}
