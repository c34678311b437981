import { readFile } from "node:fs/promises";
import { timeBudget } from "../base/budget.js";
import { omitUndefined } from "../base/defined.js";
import { type GithubHook, type GithubRecovery, recoverGithub } from "../webhooks/recovery/recover-github.js";
import {
  type Command,
  duration,
  exitCodes,
  oneOf,
  seconds,
  text,
  UsageError,
  type Values,
} from "./command.js";
import { withProgress } from "./output.js";

const providers = ["github"] as const;

export const recoverCommand: Command = {
  name: "recover",
  summary: "ask a provider that never retries to deliver failed webhooks again",
  usage:
    "recover github --repository OWNER/NAME --hook ID | --organization NAME --hook ID | --app-id ID [options]",
  positionals: 1,
  options: {
    repository: { type: "string" },
    organization: { type: "string" },
    hook: { type: "string" },
    "app-id": { type: "string" },
    "token-env": { type: "string" },
    "private-key-env": { type: "string" },
    "private-key-file": { type: "string" },
    since: { type: "string" },
    all: { type: "boolean" },
    "dry-run": { type: "boolean" },
    time: { type: "string" },
    "api-url": { type: "string" },
    json: { type: "boolean" },
  },
  help: {
    repository: "the repository of the webhook",
    organization: "the organization of the webhook",
    hook: "the webhook's id, which is in the address of its settings page",
    "app-id": "the id of a GitHub App, for the app's own webhook",
    "token-env": "an environment variable with a token that may manage webhooks; GITHUB_TOKEN by default",
    "private-key-env":
      "an environment variable with the app's private key; GITHUB_APP_PRIVATE_KEY by default",
    "private-key-file": "a file with the app's private key",
    since: "how far back to look: 90s, 15m, 1h, 3d; 3d by default, which is as far as GitHub goes",
    all: "ask also for deliveries that were tried again a moment ago",
    "dry-run": "count what failed, and ask for nothing",
    time: "the most seconds to run; 60 by default",
    "api-url": "GitHub Enterprise Server: https://HOST/api/v3",
    json: "print JSON",
  },
  examples: [
    "oncebox recover github --repository acme/shop --hook 123456789",
    "oncebox recover github --app-id 12345 --private-key-file app.pem --since 6h --dry-run",
  ],
  async run({ values, positionals, terminal }) {
    oneOf(providers, positionals[0], "The provider");
    const options = {
      hooks: [hookOf(values)],
      ...(await credentialsOf(values, terminal.env)),
      sinceMs: duration(values, "since", "3d"),
      backOff: values.all !== true,
      dryRun: values["dry-run"] === true,
      ...omitUndefined({ apiUrl: text(values, "api-url") }),
    };
    const budget = timeBudget(seconds(values, "time", 60), terminal.signal);
    const report = await withProgress(terminal, "recover", () => recoverGithub(options, budget));
    terminal.out(values.json ? JSON.stringify(report) : described(report));
    return report.isComplete ? exitCodes.ok : exitCodes.more;
  },
};

function hookOf(values: Values): GithubHook {
  const [repository, organization, appId] = ["repository", "organization", "app-id"].map((name) =>
    text(values, name),
  );
  const hookId = text(values, "hook") ?? "";
  if ([repository, organization, appId].filter((one) => one !== undefined).length !== 1)
    throw new UsageError("recover needs one of --repository, --organization and --app-id.");
  if (repository !== undefined) return { repository, hookId };
  return organization === undefined ? { app: true } : { organization, hookId };
}

/** Never on the command line, which other users of the machine can read. */
async function credentialsOf(values: Values, env: NodeJS.ProcessEnv) {
  const id = text(values, "app-id");
  const file = text(values, "private-key-file");
  if (id === undefined) return { token: variable(env, text(values, "token-env") ?? "GITHUB_TOKEN") };
  if (file === undefined) {
    const name = text(values, "private-key-env") ?? "GITHUB_APP_PRIVATE_KEY";
    return { app: { id, privateKey: variable(env, name) } };
  }
  const privateKey = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`--private-key-file ${file} cannot be read: ${error.code}.`);
  });
  return { app: { id, privateKey } };
}

function variable(env: NodeJS.ProcessEnv, name: string): string {
  const value = env[name];
  if (!value) throw new UsageError(`The variable ${name} is not set.`);
  return value;
}

const described = ({ seen, failed, asked, later, refused, isComplete }: GithubRecovery): string =>
  [
    `deliveries ${seen}  failed ${failed}  asked for again ${asked}  later ${later}  too old ${refused}`,
    ...(isComplete ? [] : ["The time, or GitHub's limit of requests, is used up. Run it again."]),
  ].join("\n");
