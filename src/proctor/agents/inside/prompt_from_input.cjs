// Loaded into an agent's program before its own code, for one that takes its prompt as an argument only: the prompt, which
// may be longer than an argument can be, comes on standard input.
"use strict";
const option = process.env.AGENT_PROMPT_OPTION;
delete process.env.AGENT_PROMPT_OPTION;
if (!process.argv.includes("--version")) process.argv.push(option, require("node:fs").readFileSync(0, "utf8"));
