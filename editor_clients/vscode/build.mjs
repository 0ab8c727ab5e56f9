// Bundles the extension or, with the argument "test", its tests; licences of what is bundled go beside the former.
import { build } from "esbuild";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const common = { bundle: true, format: "cjs", platform: "node", target: "node20", external: ["vscode", "mocha"] };

function notices(inputs) {
    const folders = new Set(inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []));
    return [...folders].sort().map(notice).join("\n\n");
}

function notice(folder) {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (file === undefined) {
        throw new Error(`${name} has no licence file: see whether it may be bundled`);
    }
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

const options = {
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    minify: true,
    metafile: true,
};
const { metafile } = await build(options);
writeFileSync("dist/NOTICES.txt", notices(Object.keys(metafile.inputs)));
if (process.argv[2] === "test") {
    await build({ ...common, entryPoints: ["test/index.ts"], outdir: "dist/test", sourcemap: "inline" });
}
