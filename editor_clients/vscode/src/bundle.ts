// The server that comes with the extension: its wheels and its models' wheel, all with hashes, the packages that it
// needs, and the versions that it was tested with.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

// What a fresh environment on Linux took: all that pip fetched, and the whole environment; then PyTorch for CPUs.
export const LIGHT = "about 25 MB to download, and about 150 MB on disk with the server";
export const HEAVY = "about 210 MB to download, and about 900 MB on disk";

const FOLDER = join(__dirname, "server");
const REMEDY = "Install the extension again from its .vsix file.";

/** Pins what pip may choose, torch among it. */
export const CONSTRAINTS = join(FOLDER, "constraints.txt");
/** Names all that the server needs where its compiled decoder runs, without torch. */
export const REQUIREMENTS = join(FOLDER, "requirements-embedded.txt");

/** A program for the Python of the server's environment, which leaves in it what the server needs. */
export const SLIM = join(__dirname, "..", "slim.py");

/** Return the paths of the server's wheel for this machine, and of its models'; an error unless they are those that were
 * packed. */
export async function bundledWheels(): Promise<readonly string[]> {
    const hashes = await packed();
    const compiled = process.platform === "linux" && process.arch === "x64";
    const servers = compiled ? [/^efim_ls-.*-manylinux_\w+_x86_64\.whl$/, /^efim_ls-.*-any\.whl$/] : [/^efim_ls-.*-any\.whl$/];
    return [await whole(hashes, servers), await whole(hashes, [/^efim_ls_models-/])];
}

/** Return the path of the first wheel whose name fits. */
async function whole(hashes: Map<string, string>, fitting: readonly RegExp[]): Promise<string> {
    const name = fitting.flatMap((each) => [...hashes.keys()].filter((wheel) => each.test(wheel)))[0];
    if (name === undefined) {
        throw new Error(`this extension was packed without the server. ${REMEDY}`);
    }
    const wheel = join(FOLDER, name);
    const content = await readFile(wheel).catch(() => "");
    if (createHash("sha256").update(content).digest("hex") !== hashes.get(name)) {
        throw new Error(`${name}, which came with the extension, is damaged or missing. ${REMEDY}`);
    }
    return wheel;
}

/** Return the SHA-256 of each wheel by its name, from lines as `sha256sum` writes them. */
async function packed(): Promise<Map<string, string>> {
    const lines = await readFile(join(FOLDER, "SHA256SUMS"), "utf8").catch(() => "");
    return new Map([...lines.matchAll(/^([0-9a-f]{64}) [ *](\S+)$/gm)].map(([, hash = "", name = ""]) => [name, hash]));
}
