import { omitUndefined } from "../base/defined.js";
import { type GithubHook, type GithubRecovery, recoverGithub } from "../webhooks/recovery/recover-github.js";
import { type Command, exitCodes, flag, option, UsageError, type Values } from "./command.js";
import {
  budgetOf,
  duration,
  jsonOption,
  oneOf,
  print,
  readGivenFile,
  text,
  timeOption,
  variableOf,
  withProgress,
} from "./terminal.js";

export const recoverCommand: Command = {
  name: "recover",
  summary: "ask a provider that never retries to deliver failed webhooks again",
  usage:
    "recover github --repository OWNER/NAME --hook ID | --organization NAME --hook ID | --app-id ID [options]",
  positionals: 1,
  options: {
    repository: option("the repository of the webhook"),
    organization: option("the organization of the webhook"),
    hook: option("the webhook's id, which is in the address of its settings page"),
    "app-id": option("the id of a GitHub App, for the app's own webhook"),
    "token-env": option(
      "an environment variable with a token that may manage webhooks; GITHUB_TOKEN by default",
    ),
    "private-key-env": option(
      "an environment variable with the app's private key; GITHUB_APP_PRIVATE_KEY by default",
    ),
    "private-key-file": option("a file with the app's private key"),
    since: option("how far back to look: 90s, 15m, 1h, 3d; 3d by default, which is as far as GitHub goes"),
    all: flag("ask also for deliveries that were tried again a moment ago"),
    "dry-run": flag("count what failed, and ask for nothing"),
    "api-url": option("GitHub Enterprise Server: https://HOST/api/v3"),
    ...timeOption,
    ...jsonOption,
  },
  examples: [
    "oncebox recover github --repository acme/shop --hook 123456789",
    "oncebox recover github --app-id 12345 --private-key-file app.pem --since 6h --dry-run",
  ],
  async run(input) {
    const { values, positionals, terminal } = input;
    oneOf(["github"], positionals[0], "The provider");
    const options = {
      hooks: [hookOf(values)],
      ...(await credentialsOf(values, terminal.env)),
      sinceMs: duration(values, "since", "3d"),
      backOff: values.all !== true,
      dryRun: values["dry-run"] === true,
      ...omitUndefined({ apiUrl: text(values, "api-url") }),
    };
    const budget = budgetOf(input);
    const report = await withProgress(terminal, "recover", () => recoverGithub(options, budget));
    print(input, report, described(report));
    return report.isComplete ? exitCodes.ok : exitCodes.more;
  },
};

function hookOf(values: Values): GithubHook {
  const repository = text(values, "repository");
  const organization = text(values, "organization");
  const hookId = text(values, "hook") ?? "";
  const given = [repository, organization, text(values, "app-id")].filter((one) => one !== undefined);
  if (given.length !== 1)
    throw new UsageError("recover needs one of --repository, --organization and --app-id.");
  if (repository !== undefined) return { repository, hookId };
  return organization === undefined ? { app: true } : { organization, hookId };
}

/** Never on the command line, which other users of the machine can read. */
async function credentialsOf(values: Values, env: NodeJS.ProcessEnv) {
  const id = text(values, "app-id");
  const file = text(values, "private-key-file");
  if (id === undefined) return { token: variableOf(env, text(values, "token-env") ?? "GITHUB_TOKEN") };
  if (file === undefined) {
    const name = text(values, "private-key-env") ?? "GITHUB_APP_PRIVATE_KEY";
    return { app: { id, privateKey: variableOf(env, name) } };
  }
  const privateKey = await readGivenFile(file, `--private-key-file ${file}`);
  return { app: { id, privateKey: privateKey.toString() } };
}

const described = ({ seen, failed, asked, later, refused, isComplete }: GithubRecovery): string =>
  [
    `deliveries ${seen}  failed ${failed}  asked for again ${asked}  later ${later}  too old ${refused}`,
    ...(isComplete ? [] : ["The time, or GitHub's limit of requests, is used up. Run it again."]),
  ].join("\n");
