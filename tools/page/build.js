// Builds the page's script and style into the Python package; with --check, says whether they are up to date.

import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const assets = "../../src/multiform/report/assets/";
const result = await build({
  entryPoints: [here("src/main.js")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2023",
  charset: "utf8",
  legalComments: "none",
  write: false,
});
const licenses = ["marked/LICENSE", "temml/LICENSE"].map((file) =>
  readFileSync(here(`node_modules/${file}`), "utf8").trim(),
);
const built = {
  "app.js": result.outputFiles[0].text,
  "licenses.txt": `app.js contains marked and temml.\n\nmarked\n======\n${licenses[0]}\n\ntemml\n=====\n${licenses[1]}\n`,
};
for (const [name, text] of Object.entries(built)) {
  const file = here(assets + name);
  if (!process.argv.includes("--check")) writeFileSync(file, text);
  else if (readFileSync(file, "utf8") !== text) {
    console.error(`src/multiform/report/assets/${name} is not what the sources build: npm run build`);
    process.exitCode = 1;
  }
}
