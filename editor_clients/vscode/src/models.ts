// The list of models to choose from, as `efim-ls models` tells what fits this machine.
import { homedir } from "node:os";
import { ConfigurationTarget, QuickPickItemKind, Uri, window, type QuickPick, type QuickPickItem } from "vscode";
import { findServer, type Server } from "./finding";
import { lastLine, run } from "./process";
import type { Service } from "./service";
import { ENGINE, MODEL, configuration } from "./settings";

/** A model, as `efim-ls models --json` reports it; null is unknown. */
interface Model {
    readonly name: string;
    /** The value of the setting that chooses it. */
    readonly setting: string;
    readonly bytes_on_disk: number | null;
    readonly parameters: number | null;
    readonly fits: readonly string[];
    readonly fits_gpu: readonly string[];
    readonly in_part: string | null;
    readonly problem: string | null;
    /** Of an embedded model, by the names that people use. */
    readonly languages: readonly string[];
    /** The address of a server on this machine that has the model. */
    readonly engine: string | null;
    readonly recommended: boolean;
    /** What keys take, in words. */
    readonly speed: string;
}

/** The value of the setting for models, and the address of the server that has the model, null for this machine. */
type Chosen = Pick<Model, "setting" | "engine">;

interface Choice extends QuickPickItem {
    /** Returns the choice, undefined if the user changed their mind. */
    readonly value?: () => Chosen | undefined | Promise<Chosen | undefined>;
}

/** The part of the setting `engine` that the choice of a model changes, and the part that stays. */
interface Engine {
    readonly url?: string;
    readonly wait_seconds?: number;
    readonly alone?: boolean;
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
    const others = unique(models.filter(({ setting }) => setting !== ""));
    const all = [...together(embedded), ...others];
    const first = all.filter(({ recommended }) => recommended);
    const rest = all.filter(({ recommended }) => !recommended);
    const fitting = rest.filter((each) => !isHere(each) && fits(each));
    list.items = [
        ...group("recommended here", first),
        ...group("on this machine", rest.filter(isHere)),
        ...group("to download", fitting),
        ...group("too large for this machine", rest.filter((each) => !isHere(each) && !fits(each))),
        ...named(),
    ];
}

function isHere({ bytes_on_disk, engine }: Model): boolean {
    return bytes_on_disk !== null || engine !== null;
}

function fits(model: Model): boolean {
    return model.fits.length + model.fits_gpu.length > 0 || model.in_part !== null;
}

function group(title: string, models: readonly Model[]): Choice[] {
    return models.length === 0 ? [] : [separator(title), ...models.map(choice)];
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
    const { name, setting, parameters, problem, speed, languages } = model;
    const current = setting === configuration().get(MODEL, "") && (model.engine ?? "") === engineUrl();
    const details = [
        speed,
        ...(languages.length === 0 ? [] : [languages.join(", ")]),
        ...(model.bytes_on_disk === null ? [] : [`${large(model.bytes_on_disk, "MB", "GB")} on disk`]),
        ...(languages.length > 0 || model.fits.length === 0 ? [] : [model.fits.join(", ")]),
    ];
    return {
        label: `${current ? "$(check)" : "$(blank)"} ${name}`,
        // The title of a group stands on the same line, and would cut more than a few words.
        description: parameters === null ? "" : `${large(parameters, "million", "billion")} parameters`,
        detail: problem === null ? details.join(" · ") : `Cannot be used: ${problem}`,
        value: () => model,
    };
}

function large(count: number, millions: string, billions: string): string {
    return count < 1e9 ? `${Math.round(count / 1e6)} ${millions}` : `${(count / 1e9).toFixed(1)} ${billions}`;
}

/** Return the embedded models, each for its languages, as the one choice that they are. */
function together(embedded: readonly Model[]): Model[] {
    const [first] = embedded;
    if (first === undefined) {
        return [];
    }
    const size = embedded.reduce((sum, { bytes_on_disk }) => sum + (bytes_on_disk ?? 0), 0);
    const languages = embedded.flatMap((each) => each.languages);
    return [{ ...first, name: "Built in", languages, bytes_on_disk: size }];
}

/** Return the first of each name: other revisions take a second setting. */
function unique(models: readonly Model[]): Model[] {
    return [...new Map(models.toReversed().map((each) => [each.name, each])).values()].toReversed();
}

async function folder(): Promise<Chosen | undefined> {
    const [chosen] =
        (await window.showOpenDialog({
            canSelectFiles: false,
            canSelectFolders: true,
            defaultUri: Uri.file(homedir()),
            openLabel: "Use This Model",
            title: "Choose the folder of a model: one with config.json, tokenizer.json and weights in it",
        })) ?? [];
    return chosen && { setting: chosen.fsPath, engine: null };
}

async function hubName(): Promise<Chosen | undefined> {
    const setting = await window.showInputBox({
        title: "Name a model of the Hugging Face hub",
        prompt: "It is downloaded once, and has to know fill-in-the-middle.",
        placeHolder: "Qwen/Qwen2.5-Coder-1.5B",
        validateInput: (text) => (HUB_NAME.test(text) ? undefined : "A name has two parts: owner/name"),
    });
    return setting === undefined ? undefined : { setting, engine: null };
}

/** Write the settings where they are set now, else for all workspaces. The template belongs to the model before. */
async function write({ setting, engine }: Chosen): Promise<void> {
    const ours = configuration();
    if (ours.inspect("template")?.globalValue !== undefined) {
        await ours.update("template", undefined, ConfigurationTarget.Global);
    }
    if (engine !== null) {
        await writeEngine(engine); // first: what a server computes must not be loaded here in between
    }
    const place = placeOf(MODEL);
    await ours.update(MODEL, setting === "" && place === ConfigurationTarget.Global ? undefined : setting, place);
    if (engine === null && engineUrl() !== "") {
        await writeEngine();
    }
}

/** Write the server's address; what the setting says of another server goes with the address. */
async function writeEngine(url?: string): Promise<void> {
    const { wait_seconds, alone } = configuration().get<Engine>(ENGINE, {});
    const engine: Engine = {
        ...(url === undefined ? {} : { url }),
        ...(wait_seconds === undefined ? {} : { wait_seconds }),
        ...(alone === undefined || url !== undefined ? {} : { alone }),
    };
    await configuration().update(ENGINE, Object.keys(engine).length === 0 ? undefined : engine, placeOf(ENGINE));
}

function engineUrl(): string {
    return configuration().get<Engine>(ENGINE, {}).url ?? "";
}

function placeOf(name: string): ConfigurationTarget {
    const isOfWorkspace = configuration().inspect(name)?.workspaceValue !== undefined;
    return isOfWorkspace ? ConfigurationTarget.Workspace : ConfigurationTarget.Global;
}

function separator(label: string): Choice {
    return { label, kind: QuickPickItemKind.Separator };
}

function note(label: string): Choice {
    return { label: `$(info) ${label}`, alwaysShow: true };
}
