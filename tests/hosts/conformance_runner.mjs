// Runs scenarios of the official conformance suite in one process: `node conformance_runner.mjs INDEX_JS`.
//
// A line of stdin is a run: {"folder", "arguments"}. The answer is a line of stdout: {"code", "output"}. The suite's
// program is evaluated anew for each; its libraries, which take most of the time of a start, are loaded once.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const suite = pathToFileURL(process.argv[2]);
const { Command } = createRequire(suite)("commander");
const answer = process.stdout.write.bind(process.stdout);

class Exit extends Error {}
let output = "";
let exited = () => {};
let parsed = Promise.resolve();
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (text) => ((output += text), true);
}
process.exit = (code) => {
  exited(code ?? process.exitCode ?? 0);
  throw new Exit();
};
Command.prototype.parse = function (...given) {
  parsed = this.parseAsync(...given);
  return this;
};
process.on("unhandledRejection", (error) => {
  if (!(error instanceof Exit)) process.exit(1);
});

async function run(number, { folder, arguments: words }) {
  output = "";
  process.exitCode = undefined;
  process.chdir(folder);
  process.argv = [process.argv[0], suite.pathname, ...words];
  const code = new Promise((resolve) => (exited = resolve));
  try {
    await import(`${suite}?${number}`);
    await parsed;
    exited(process.exitCode ?? 0);
  } catch (error) {
    if (!(error instanceof Exit)) {
      output += error.stack;
      exited(1);
    }
  }
  return { code: await code, output };
}

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  answer(JSON.stringify(await run(number++, JSON.parse(line))) + "\n");
}
process.reallyExit(0);
