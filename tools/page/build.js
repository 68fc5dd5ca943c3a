// Builds the page's script and style into the Python package; with --check, says whether they are up to date.

import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const assets = "../../src/multiform/report/assets/";
const options = { bundle: true, minify: true, charset: "utf8", legalComments: "none", write: false };
const text = async (file, more) =>
  (await build({ entryPoints: [here(`src/${file}`)], ...options, ...more })).outputFiles[0].text;
const licenses = ["marked/LICENSE", "temml/LICENSE"].map((file) =>
  readFileSync(here(`node_modules/${file}`), "utf8").trim(),
);
const built = {
  "app.js": await text("main.js", { format: "iife", target: "es2023" }),
  "style.css": await text("style.css"),
  "licenses.txt": `app.js contains marked and temml.\n\nmarked\n======\n${licenses[0]}\n\ntemml\n=====\n${licenses[1]}\n`,
};
for (const [name, content] of Object.entries(built)) {
  const file = here(assets + name);
  if (!process.argv.includes("--check")) writeFileSync(file, content);
  else if (readFileSync(file, "utf8") !== content) {
    console.error(`src/multiform/report/assets/${name} is not what the sources build: npm run build`);
    process.exitCode = 1;
  }
}
