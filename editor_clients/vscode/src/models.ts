// The list of models to choose from, as `efim-ls models` tells what fits this machine.
import { homedir } from "node:os";
import { ConfigurationTarget, QuickPickItemKind, Uri, window, type QuickPick, type QuickPickItem } from "vscode";
import { findServer, type Server } from "./finding";
import { lastLine, run } from "./process";
import type { Service } from "./service";
import { MODEL, configuration } from "./settings";

/** A model, as `efim-ls models --json` reports it; null is unknown. */
interface Model {
    readonly name: string;
    /** The value of the setting that chooses it. */
    readonly setting: string;
    readonly bytes_on_disk: number | null;
    readonly parameters: number | null;
    readonly fits: readonly string[];
    readonly fits_gpu: readonly string[];
    /** Of a typical key, and of the first one at a cold place. */
    readonly milliseconds: number | null;
    readonly cold_milliseconds: number | null;
    readonly measured: boolean;
    readonly problem: string | null;
}

interface Choice extends QuickPickItem {
    /** Returns the value of the setting, undefined if the user changed their mind. */
    readonly value?: () => string | undefined | Promise<string | undefined>;
}

const PATIENCE = 60_000; // ms: the server measures how fast this machine reads memory
const HUB_NAME = /^[\w.-]+\/[\w.-]+(@[\w./+-]+)?$/;

/** Let the user choose a model, and write it into the settings. */
export async function chooseModel(service: Service, ownEnvironment: string): Promise<void> {
    const { condition } = service;
    const server = condition.kind === "running" ? condition.server : await findServer(ownEnvironment);
    const chosen = await pick(server);
    const value = await chosen?.value?.();
    if (value !== undefined) {
        await write(value);
    }
}

async function pick(server: Server): Promise<Choice | undefined> {
    const list = window.createQuickPick<Choice>();
    const stopping = new AbortController();
    list.title = "efim-ls: Choose a Model";
    list.matchOnDescription = list.matchOnDetail = true;
    list.busy = true; // no placeholder: VS Code shows it again as a hint, over the title
    list.items = [...named(), note("looking at what fits this machine...")];
    const chosen = new Promise<Choice | undefined>((resolve) => {
        list.onDidAccept(() => resolve(list.selectedItems[0]));
        list.onDidHide(() => resolve(undefined));
    });
    list.show();
    void fill(list, server, stopping.signal);
    try {
        return await chosen;
    } finally {
        stopping.abort();
        list.dispose();
    }
}

/** List the models once the server has named them, without taking the selection from the user. */
async function fill(list: QuickPick<Choice>, { command, args }: Server, stopped: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stopped, AbortSignal.timeout(PATIENCE)]);
    const told = await run(command, [...args, "models", "--json"], { signal });
    if (stopped.aborted) {
        return;
    }
    list.busy = false;
    if (told.code !== 0) {
        list.items = [...named(), note(`the models could not be listed: ${lastLine(told.errors)}`)];
        return;
    }
    const { models }: { models: readonly Model[] } = JSON.parse(told.output);
    const embedded = models.filter(({ setting }) => setting === "");
    const here = models.filter(({ bytes_on_disk, setting }) => bytes_on_disk !== null && setting !== "");
    const elsewhere = models.filter((each) => each.bytes_on_disk === null);
    list.items = [
        separator("on this machine"),
        ...[...together(embedded), ...unique(here)].map(choice),
        separator("downloaded when you choose one"),
        ...elsewhere.map(choice),
        ...named(),
    ];
}

/** Return the choices that need no list. */
function named(): Choice[] {
    return [
        separator("another model"),
        { label: "$(folder-opened) Choose a folder...", alwaysShow: true, value: folder },
        { label: "$(globe) Name a model of the Hugging Face hub...", alwaysShow: true, value: hubName },
    ];
}

function choice(model: Model): Choice {
    const { name, setting, parameters, problem } = model;
    const current = setting === configuration().get(MODEL, "");
    return {
        label: `${current ? "$(check)" : "$(blank)"} ${name}`,
        description: [
            ...(parameters === null ? [] : [`${large(parameters, "million", "billion")} parameters`]),
            ...(model.bytes_on_disk === null ? [] : [`${large(model.bytes_on_disk, "MB", "GB")} on disk`]),
        ].join(", "),
        detail: problem === null ? fit(model) : `Cannot be used: ${problem}`,
        value: () => setting,
    };
}

function large(count: number, millions: string, billions: string): string {
    return count < 1e9 ? `${Math.round(count / 1e6)} ${millions}` : `${(count / 1e9).toFixed(1)} ${billions}`;
}

/** Return whether a model fits, and how long keys take. */
function fit({ fits, fits_gpu, milliseconds, cold_milliseconds, measured }: Model): string {
    if (fits_gpu.length > 0) {
        return "Fits the GPU of this machine";
    }
    if (fits.length === 0) {
        return "Too large for the memory that is free on this machine";
    }
    const about = measured ? "" : "about ";
    const times = [
        ...(milliseconds === null ? [] : [`a typical key takes ${about}${duration(milliseconds)}`]),
        ...(cold_milliseconds === null ? [] : [`a cold place ${about}${duration(cold_milliseconds)}`]),
    ];
    return [`Fits this machine as ${fits.join(" or ")}`, ...times].join(", ");
}

function duration(milliseconds: number): string {
    const [count, unit] = milliseconds < 1000 ? [milliseconds, "ms"] : [milliseconds / 1000, "s"];
    return `${count.toFixed(count < 10 ? 1 : 0)} ${unit}`;
}

/** Return the embedded models, each for its languages, as the one choice that they are. */
function together(embedded: readonly Model[]): Model[] {
    const [first] = embedded;
    if (first === undefined) {
        return [];
    }
    const size = embedded.reduce((sum, { bytes_on_disk }) => sum + (bytes_on_disk ?? 0), 0);
    return [{ ...first, name: embedded.map(({ name }) => name).join("; "), bytes_on_disk: size }];
}

/** Return the first of each name: other revisions take a second setting. */
function unique(models: readonly Model[]): Model[] {
    return [...new Map(models.toReversed().map((each) => [each.name, each])).values()].toReversed();
}

async function folder(): Promise<string | undefined> {
    const [chosen] =
        (await window.showOpenDialog({
            canSelectFiles: false,
            canSelectFolders: true,
            defaultUri: Uri.file(homedir()),
            openLabel: "Use This Model",
            title: "Choose the folder of a model: one with config.json, tokenizer.json and weights in it",
        })) ?? [];
    return chosen?.fsPath;
}

async function hubName(): Promise<string | undefined> {
    return await window.showInputBox({
        title: "Name a model of the Hugging Face hub",
        prompt: "It is downloaded once, and has to know fill-in-the-middle.",
        placeHolder: "Qwen/Qwen2.5-Coder-1.5B",
        validateInput: (text) => (HUB_NAME.test(text) ? undefined : "A name has two parts: owner/name"),
    });
}

/** Write the setting where it is set now, else for all workspaces. The template belongs to the model before. */
async function write(value: string): Promise<void> {
    const ours = configuration();
    const place = ours.inspect(MODEL)?.workspaceValue === undefined ? ConfigurationTarget.Global : ConfigurationTarget.Workspace;
    if (ours.inspect("template")?.globalValue !== undefined) {
        await ours.update("template", undefined, ConfigurationTarget.Global);
    }
    await ours.update(MODEL, value === "" && place === ConfigurationTarget.Global ? undefined : value, place);
}

function separator(label: string): Choice {
    return { label, kind: QuickPickItemKind.Separator };
}

function note(label: string): Choice {
    return { label: `$(info) ${label}`, alwaysShow: true };
}
