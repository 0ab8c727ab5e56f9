// The server that comes with the extension: its wheels with their hashes, the packages that it needs, and the versions it
// was tested with.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

// What a fresh environment on Linux took: all that pip fetched, and the whole environment; then PyTorch for CPUs.
export const LIGHT = "about 25 MB to download, and about 160 MB on disk with the server";
export const HEAVY = "about 210 MB to download, and about 900 MB on disk";

const FOLDER = join(__dirname, "server");
const REMEDY = "Install the extension again from its .vsix file.";

/** Pins what pip may choose, torch among it. */
export const CONSTRAINTS = join(FOLDER, "constraints.txt");
/** Names all that the server needs where its compiled decoder runs, without torch. */
export const REQUIREMENTS = join(FOLDER, "requirements-embedded.txt");

/** Return the path of the wheel for this machine; an error unless it is the one that was packed. */
export async function bundledWheel(): Promise<string> {
    const names = await packed();
    const compiled = process.platform === "linux" && process.arch === "x64";
    const tags = compiled ? [/-manylinux_\w+_x86_64\.whl$/, /-any\.whl$/] : [/-any\.whl$/];
    const name = tags.flatMap((tag) => [...names.keys()].filter((each) => tag.test(each)))[0];
    if (name === undefined) {
        throw new Error(`this extension was packed without the server. ${REMEDY}`);
    }
    const wheel = join(FOLDER, name);
    const content = await readFile(wheel).catch(() => "");
    if (createHash("sha256").update(content).digest("hex") !== names.get(name)) {
        throw new Error(`${name}, which came with the extension, is damaged or missing. ${REMEDY}`);
    }
    return wheel;
}

/** Return the SHA-256 of each wheel by its name, from lines as `sha256sum` writes them. */
async function packed(): Promise<Map<string, string>> {
    const lines = await readFile(join(FOLDER, "SHA256SUMS"), "utf8").catch(() => "");
    return new Map([...lines.matchAll(/^([0-9a-f]{64}) [ *](\S+)$/gm)].map(([, hash = "", name = ""]) => [name, hash]));
}
