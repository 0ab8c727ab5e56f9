// Installs the server that comes with the extension into a Python environment of the extension's own, with pip: without
// PyTorch, unless the server says that it needs it here.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CancellationError, ProgressLocation, window, type LogOutputChannel } from "vscode";
import { CONSTRAINTS, HEAVY, LIGHT, REQUIREMENTS, SLIM, bundledWheels } from "./bundle";
import { interpreterIn } from "./finding";
import { lastLine, run, type Finished } from "./process";

const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python", "py"];
const NEW_ENOUGH = ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"];
// pip leaves the environment when all is installed, or is not yet in it; Python has a copy. Without one, Debian's says how
// to get it when the environment is made anew.
const PIP_IS_THERE = ["-I", "-c", "import pip"];
const BRING_PIP = ["-I", "-m", "ensurepip"];
// Nothing is compiled for modules that nobody imports: that would take 20 MB and two seconds.
const PIP_INSTALL = ["-m", "pip", "install", "--no-input", "--no-compile", "--disable-pip-version-check"];
const OURS = ["efim-ls", "efim-ls-models"];
const LOG = "Show Log";
const INSTALL = "Install";

/** A package that the server asks for, and why. */
export interface Lack {
    readonly name: string;
    readonly why: string;
}

/** Return what the server says that it lacks, if that is a package which the extension can install. */
export function lackIn(message: string): Lack | undefined {
    const [, why = "", name] =
        /^(?:efim-ls: )?(.*): run (?:.* )?pip install (?:.* )?(torch|huggingface_hub)\b/s.exec(message) ?? [];
    return name === undefined ? undefined : { name, why };
}

/** Called with a message while work goes on, and without one at its end. */
export type Working = (message?: string) => void;

/** Install or update the server, or add the package that it lacks. Return false after a failure, which the user
 * sees; throw CancellationError if they stop it. */
export async function install(
    environment: string,
    log: LogOutputChannel,
    working: Working,
    lack?: Lack,
): Promise<boolean> {
    const what = lack?.name ?? "the server";
    const title = lack ? `${lack.name} for efim-ls` : "The server of efim-ls"; // before consent nothing is installed
    const options = { location: ProgressLocation.Notification, title, cancellable: true };
    const failure = await window.withProgress(options, async (progress, token) => {
        const stopping = new AbortController();
        token.onCancellationRequested(() => stopping.abort());
        try {
            const report = (message: string): void => {
                progress.report({ message });
                working(`${title}: ${message}.`);
            };
            const installation = new Installation(environment, log, report, stopping.signal);
            await (lack ? installation.add(lack) : installation.run());
            return undefined;
        } catch (error) {
            if (stopping.signal.aborted || error instanceof CancellationError) {
                throw new CancellationError();
            }
            return error instanceof Error ? error.message : String(error);
        } finally {
            working();
        }
    });
    if (failure !== undefined) {
        log.error(failure);
        void window.showErrorMessage(`Could not install ${what}: ${failure}`, LOG).then((chosen) => {
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

/** What pip would fetch in addition to the server. */
interface Plan {
    readonly packages: number;
    readonly torch: string | undefined;
    readonly hasCuda: boolean;
}

class Installation {
    private readonly python: string;
    /** What pip fetches before that it only looks at: an index may have no metadata but in the packages. */
    private agreedTo = false;

    constructor(
        private readonly environment: string,
        private readonly log: LogOutputChannel,
        private readonly report: (message: string) => void,
        private readonly signal: AbortSignal,
    ) {
        this.python = interpreterIn(environment);
    }

    async run(): Promise<void> {
        const wheels = await bundledWheels();
        const isNew = !(await this.succeeds(this.python, NEW_ENOUGH)) || !(await this.hasPip());
        if (isNew) {
            const made = ["-m", "venv", "--clear", this.environment];
            await this.step("creating a Python environment", await this.anyPython(), made);
        }
        const packages = ["--constraint", CONSTRAINTS, "--no-deps", "--requirement", REQUIREMENTS, ...wheels];
        const plan = await this.plan(packages);
        if (!(await this.agreed("the efim-ls server", ofServer(plan)))) {
            throw new CancellationError();
        }
        await this.pip("installing the server", packages);
        // The same version may be there already, from an extension of another day. First the server: an earlier one had
        // the models in its own wheel, and they go with it.
        for (const wheel of isNew ? [] : wheels) {
            await this.pip("installing the server", ["--force-reinstall", "--no-deps", "--no-index", wheel]);
        }
        const lack = await this.lack();
        await (lack ? this.add(lack) : this.slim());
    }

    /** Install a package with all that it needs, if the user agrees. */
    async add({ name, why }: Lack): Promise<void> {
        await this.hasPip();
        const packages = ["--constraint", CONSTRAINTS, name];
        const plan = await this.plan(packages);
        if (await this.agreed(name, `The server says: ${why}. ${ofAddition(plan)}`)) {
            await (plan.hasCuda ? this.installTorchForCpus() : this.pip(`installing ${name}`, packages));
        }
        await this.slim();
    }

    private async hasPip(): Promise<boolean> {
        return (await this.succeeds(this.python, PIP_IS_THERE)) || (await this.succeeds(this.python, BRING_PIP));
    }

    /** A failure is only logged: the server works, and takes more room on the disk. */
    private async slim(): Promise<void> {
        const removing = "removing what the server does not need";
        const finished = await this.logged(removing, this.python, ["-I", SLIM]);
        if (finished.code !== 0) {
            this.log.warn(`${removing} failed: ${cause(finished)}`);
        }
    }

    /** Compute with the server. Return the package that it lacks for that on this machine; throw other failures. */
    private async lack(): Promise<Lack | undefined> {
        const checking = "checking that the server works";
        const finished = await this.logged(checking, this.python, ["-m", "efim_ls", "doctor"]);
        if (/^works: /m.test(finished.output)) {
            return undefined;
        }
        this.signal.throwIfAborted();
        const problem = /^does not work: (.+)$/m.exec(finished.output)?.[1] ?? cause(finished);
        const found = lackIn(problem);
        if (found === undefined) {
            throw new Error(`${checking} failed: ${problem}`);
        }
        return found;
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
        this.agreedTo = false;
        await this.pip("looking up its dependencies", ["--dry-run", "--report", file, ...packages]);
        const report = JSON.parse(await readFile(file, "utf8")) as Report;
        const needed = report.install.map((each) => each.metadata).filter(({ name }) => !OURS.includes(name));
        return {
            packages: needed.length,
            torch: needed.find(({ name }) => name === "torch")?.version,
            hasCuda: needed.some(({ name }) => /^nvidia[-_]/i.test(name)),
        };
    }

    private async agreed(what: string, detail: string): Promise<boolean> {
        const options = { modal: true, detail: `${detail}\n\nFolder: ${this.environment}` };
        this.report("waiting for your answer");
        this.agreedTo = (await window.showInformationMessage(`Install ${what}?`, options, INSTALL)) === INSTALL;
        return this.agreedTo;
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
        const finished = await this.logged(what, command, args);
        if (finished.code !== 0) {
            this.signal.throwIfAborted();
            throw new Error(`${what} failed: ${cause(finished)}`);
        }
    }

    private async logged(what: string, command: string, args: readonly string[]): Promise<Finished> {
        this.report(what);
        this.log.info(`${what}: ${command} ${args.join(" ")}`);
        const onText = (text: string): void => {
            this.log.append(text);
            const fetched = [...text.matchAll(/Downloading (\S+)\.whl \((.+)\)/g)].at(-1);
            if (fetched !== undefined && this.agreedTo) {
                this.report(`fetching ${nameAndVersion(fetched[1])} (${fetched[2]})`);
            } else if (text.includes("Installing collected packages")) {
                this.report("unpacking the download");
            }
        };
        return await run(command, args, { signal: this.signal, onText });
    }
}

function ofServer({ packages }: Plan): string {
    const server = "The server comes with this extension.";
    return packages > 0
        ? `${server} pip fetches ${small(packages)} that it needs: ${LIGHT}. If it needs PyTorch on this machine, you are asked again.`
        : `${server} All packages that it needs are there already.`;
}

function ofAddition({ packages, torch, hasCuda }: Plan): string {
    if (hasCuda) {
        return `Your package index has PyTorch for GPUs only, which takes several gigabytes. The program uv, which pip fetches, installs PyTorch for CPUs from PyTorch's own index instead: ${HEAVY}.`;
    }
    return torch === undefined
        ? `pip fetches ${small(packages)}.`
        : `pip fetches ${packages} packages: ${HEAVY}, most of it PyTorch ${torch}.`;
}

/** Return `torch 2.13.0` for `torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64`, an address before it or not. */
function nameAndVersion(wheel = ""): string {
    return wheel.replace(/.*\//, "").split("-").slice(0, 2).join(" ");
}

function cause({ output, errors }: Finished): string {
    const missing = /^ +apt install (\S+)$/m.exec(output)?.[1]; // as Debian's Python says it
    if (missing !== undefined) {
        return `Python cannot make environments. Install ${missing} with your system's package manager, and try again.`;
    }
    const unfit = // as pip says it
        /^The conflict is caused by:\s+(.+)$/m.exec(output) ?? /^ERROR: No matching distribution found for (.+)$/m.exec(errors);
    if (unfit !== null) {
        return `your package index has nothing that fits: ${unfit[1]}.`;
    }
    const told = errors.split(/\r?\n/).filter((line) => /^error: ?/i.test(line));
    return (told[0] ?? lastLine(errors || output)).replace(/^error: ?/i, "").trim();
}

function small(packages: number): string {
    return packages === 1 ? "1 small package" : `${packages} small packages`;
}
