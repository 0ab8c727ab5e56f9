// Installs the server that comes with the extension into a Python environment of the extension's own, with pip.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CancellationError, ProgressLocation, window, type LogOutputChannel, type Progress } from "vscode";
import { CONSTRAINTS, bundledWheel } from "./bundle";
import { interpreterIn } from "./finding";
import { lastLine, run, type Finished } from "./process";

const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];
const NEW_ENOUGH = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"];
const PIP_INSTALL = ["-m", "pip", "install", "--no-input", "--disable-pip-version-check"];
const LOG = "Show Log";
const INSTALL = "Install";
// What a fresh environment on Linux took: all that pip fetched, and the whole environment.
const DOWNLOAD = "about 230 MB";
const ON_DISK = "about 1 GB";

/** Install or update the server. Return false after a failure, which the user sees; throw CancellationError if they stop
 * it. */
export async function install(environment: string, log: LogOutputChannel): Promise<boolean> {
    const options = { location: ProgressLocation.Notification, title: "Installing the server", cancellable: true };
    const failure = await window.withProgress(options, async (progress, token) => {
        const stopping = new AbortController();
        token.onCancellationRequested(() => stopping.abort());
        try {
            await new Installation(environment, log, progress, stopping.signal).run();
            return undefined;
        } catch (error) {
            if (stopping.signal.aborted || error instanceof CancellationError) {
                throw new CancellationError();
            }
            return error instanceof Error ? error.message : String(error);
        }
    });
    if (failure !== undefined) {
        log.error(failure);
        void window.showErrorMessage(`Could not install the server: ${failure}`, LOG).then((chosen) => {
            if (chosen === LOG) {
                log.show();
            }
        });
    }
    return failure === undefined;
}

/** The part that is used of what `pip install --report` writes. */
interface Report {
    readonly install: readonly { readonly metadata: { readonly name: string; readonly version: string } }[];
}

/** What pip would fetch, besides the server. */
interface Plan {
    readonly packages: number;
    readonly torch: string | undefined;
    readonly hasCuda: boolean;
}

class Installation {
    private readonly python: string;

    constructor(
        private readonly environment: string,
        private readonly log: LogOutputChannel,
        private readonly progress: Progress<{ message: string }>,
        private readonly signal: AbortSignal,
    ) {
        this.python = interpreterIn(environment);
    }

    async run(): Promise<void> {
        const wheel = await bundledWheel();
        if (!(await this.succeeds(this.python, NEW_ENOUGH))) {
            const made = ["-m", "venv", "--clear", this.environment];
            await this.step("creating a Python environment", await this.anyPython(), made);
        }
        const packages = ["--constraint", CONSTRAINTS, wheel];
        const plan = await this.plan(packages);
        await this.askUser(plan);
        if (plan.hasCuda) {
            await this.installTorchForCpus();
        }
        await this.pip("installing the server", packages);
        // The same version may be there already, from an extension of another day.
        await this.pip("installing the server", ["--force-reinstall", "--no-deps", "--no-index", wheel]);
        await this.step("checking what was installed", this.python, ["-m", "efim_ls", "--version"]);
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

    private async plan(packages: readonly string[]): Promise<Plan> {
        const file = join(this.environment, "plan.json");
        await this.pip("looking up what it needs", ["--dry-run", "--report", file, ...packages]);
        const report = JSON.parse(await readFile(file, "utf8")) as Report;
        const needed = report.install.map((each) => each.metadata).filter(({ name }) => name !== "efim-ls");
        return {
            packages: needed.length,
            torch: needed.find(({ name }) => name === "torch")?.version,
            hasCuda: needed.some(({ name }) => /^nvidia[-_]/i.test(name)),
        };
    }

    private async askUser(plan: Plan): Promise<void> {
        const detail = `${described(plan)}\n\nFolder: ${this.environment}`;
        const title = "Install the efim-ls server?";
        if ((await window.showInformationMessage(title, { modal: true, detail }, INSTALL)) !== INSTALL) {
            throw new CancellationError();
        }
    }

    /** uv knows where PyTorch keeps its builds for CPUs; pip's own index has none for Linux. */
    private async installTorchForCpus(): Promise<void> {
        await this.pip("installing uv", ["uv"]);
        await this.step("installing PyTorch for CPUs", this.python, [
            ...["-m", "uv", "pip", "install", "--no-progress", "--python", this.python],
            ...["--torch-backend", "cpu", "--constraint", CONSTRAINTS, "torch"],
        ]);
    }

    private pip(what: string, args: readonly string[]): Promise<void> {
        return this.step(what, this.python, [...PIP_INSTALL, ...args]);
    }

    private async succeeds(command: string, args: readonly string[]): Promise<boolean> {
        return (await run(command, args, { signal: this.signal })).code === 0;
    }

    private async step(what: string, command: string, args: readonly string[]): Promise<void> {
        this.progress.report({ message: what });
        this.log.info(`${what}: ${command} ${args.join(" ")}`);
        const onText = (text: string): void => {
            this.log.append(text);
            const fetched = [...text.matchAll(/Downloading (\S+)\.whl \((.+)\)/g)].at(-1);
            if (fetched !== undefined) {
                this.progress.report({ message: `fetching ${nameAndVersion(fetched[1])} (${fetched[2]})` });
            } else if (text.includes("Installing collected packages")) {
                this.progress.report({ message: "unpacking what was fetched" });
            }
        };
        const finished = await run(command, args, { signal: this.signal, onText });
        if (finished.code !== 0) {
            this.signal.throwIfAborted();
            throw new Error(`${what} failed: ${cause(finished)}`);
        }
    }
}

function described({ packages, torch, hasCuda }: Plan): string {
    const server = "The server comes with this extension.";
    if (hasCuda) {
        return `${server} Your package index has PyTorch for GPUs only, which takes several gigabytes. The program uv, which pip fetches, installs PyTorch for CPUs from PyTorch's own index instead. All in all that is ${DOWNLOAD} to download, and ${ON_DISK} on disk.`;
    }
    if (torch !== undefined) {
        return `${server} pip fetches the ${packages} packages that it needs: ${DOWNLOAD} to download and ${ON_DISK} on disk, most of it PyTorch ${torch}.`;
    }
    return packages > 0
        ? `${server} pip fetches ${packages} small packages that it needs; PyTorch is there already.`
        : `${server} All packages that it needs are there already.`;
}

/** Return `torch 2.13.0` for `torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64`. */
function nameAndVersion(wheel = ""): string {
    return wheel.split("-").slice(0, 2).join(" ");
}

function cause({ output, errors }: Finished): string {
    const missing = /^ +apt install (\S+)$/m.exec(output)?.[1]; // as Debian's Python says it
    if (missing !== undefined) {
        return `Python cannot make environments. Install ${missing} with your system's package manager, and try again.`;
    }
    const conflict = /^The conflict is caused by:\s+(.+)$/m.exec(output)?.[1]; // as pip says it, for a lack as well
    if (conflict !== undefined) {
        return `your package index has nothing that fits: ${conflict}.`;
    }
    const told = errors.split(/\r?\n/).filter((line) => /^error: ?/i.test(line));
    return (told[0] ?? lastLine(errors || output)).replace(/^error: ?/i, "").trim();
}
