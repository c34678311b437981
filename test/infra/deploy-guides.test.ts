import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as lambda from "@aws-sdk/client-lambda";
import * as secretsManager from "@aws-sdk/client-secrets-manager";
import * as sns from "@aws-sdk/client-sns";
import * as sqs from "@aws-sdk/client-sqs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { functionsUsers } from "../../src/adapters/aws/migrate-function.js";
import { urlOfUser } from "../../src/config/aws-settings.js";
import { databaseKindOf } from "../../src/config/database-url.js";
import { defaultConnections } from "../../src/sql/driver.js";
import { root } from "../support/markdown.js";

const read = (name: string) => readFileSync(join(root, name), "utf8");
const found = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name!);

describe.each(["docs/deploy-aws.md", "docs/deploy-azure.md"])("%s", (name) => {
  const text = read(name);

  it("FUN-10 names files that exist", () => {
    const files = found(text, /\b(infra\/[\w./-]+\w)/g);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) expect(existsSync(join(root, file)), file).toBe(true);
  });
});

describe("the guides and the templates", () => {
  it("FUN-10 the AWS guide uses parameters and secrets of the stack", () => {
    const { params } = parse(read("serverless.yml"));
    const guide = read("docs/deploy-aws.md");
    for (const param of found(guide, /--param="(\w+)=/g))
      expect(Object.keys(params.default)).toContain(param);
    expect(Object.keys(params.default)).toEqual(expect.arrayContaining(Object.keys(params.prod)));
    const templates = [
      "secrets",
      "tenants-catalogue",
      "service-true",
      "admin-true",
      "messaging-true",
      "recover-github-true",
    ]
      .map((file) => read(`infra/aws/${file}.yml`))
      .join("\n");
    const secrets = found(guide, /--secret-id \$APP\/\$STAGE\/([\w/-]+)/g);
    expect(secrets.length).toBeGreaterThan(2);
    for (const secret of secrets)
      expect(templates).toContain(`Name: \${self:service}/\${sls:stage}/${secret}\n`);
  });

  it("FUN-10 all functions of production together stay within the connections of the database's user", () => {
    const { params, functions } = parse(read("serverless.yml"));
    const { function: service } = parse(read("infra/aws/service-true.yml"));
    const { functions: ofMessages } = parse(read("infra/aws/messaging-true.yml"));
    const [perInstance] = found(
      read("functions/service.ts"),
      /openDatabase\(url, \{ maxConnections: (\d) \}\)/g,
    );
    const given: Readonly<Record<string, number>> = { ...params.default, ...params.prod };
    const reserved = ({ reservedConcurrency }: { reservedConcurrency?: unknown }): number => {
      const [, name = ""] = /^\$\{param:(\w+)\}$/.exec(String(reservedConcurrency)) ?? [];
      return Number(given[name] ?? reservedConcurrency);
    };
    const messaging = Object.values<object>(ofMessages).reduce(
      (sum, one) => sum + reserved(one) * Number(perInstance),
      0,
    );
    expect(messaging).toBeGreaterThan(0);
    // those that are in a file of their own are a reference here
    const own = Object.entries<object>(functions).filter(([, one]) => typeof one === "object");
    expect(own.length).toBeGreaterThan(4);
    // a webhook's function handles one request at a time; the others have a pool
    const most = own.reduce(
      (sum, [name, one]) => sum + reserved(one) * (name === "webhook" ? 1 : defaultConnections),
      reserved(service) + messaging,
    );
    expect(most).toBeGreaterThan(0);
    const [allowed] = found(read("infra/sql/users-postgres.sql"), /connection limit (\d+)/g);
    expect(most).toBeLessThanOrEqual(Number(allowed));
  });

  it("FUN-10 the Azure guide uses parameters, outputs, secrets and tasks of the deployment", () => {
    const guide = read("docs/deploy-azure.md");
    const parameters = read("infra/azure/main.parameters.json");
    for (const name of found(guide, /azd env set (\w+)/g)) expect(parameters).toContain(`\${${name}`);
    const outputs = found(read("infra/azure/main.bicep"), /^output (\w+) /gm);
    const used = found(guide, /(?<!\\)\$\{?([A-Z]+(?:_[A-Z]+)+)\b/g).filter(
      (name) => name !== "NEW_TOKEN" && name !== "OWNER_URL",
    );
    expect(used.length).toBeGreaterThan(10);
    for (const name of used) expect(outputs).toContain(name);
    const secrets = found(guide, /hooks\.mjs secret ([\w-]+)/g).filter((name) => name !== "tenant-acme");
    expect(new Set(secrets)).toEqual(
      new Set([
        "stripe-webhook-secret",
        "admin-tokens",
        "inbox-service-tokens",
        "github-token",
        "messaging-shop",
        "messaging-tokens",
      ]),
    );
    for (const name of secrets) expect(read("infra/azure/main.bicep")).toContain(`'${name}'`);
    const tasks = found(read("infra/azure/hooks.mjs"), /^const tasks = \{ (.*) \};$/gm)[0]!.split(", ");
    for (const task of found(guide, /hooks\.mjs (\w+)/g)) expect(tasks).toContain(task);
  });
});

const awsGuide = read("docs/deploy-aws.md");

/** The commands of a tool: those in blocks, each on one line, and those in tables and sentences. */
function commandsOf(tool: string): readonly string[] {
  const joined = awsGuide.replaceAll(/ *\\\n */g, " ");
  const start = tool.replaceAll(/[.*+?]/g, "\\$&");
  return [...joined.matchAll(new RegExp(`(?<![\\w-])${start} ([^\`\\n]+)`, "g"))].map(([, rest]) => {
    const [words] = rest!.replace(/"[^"]*"|'[^']*'/g, "text").split(/ #| \| | && |\) /);
    return words!.trim();
  });
}
/** The command's name, and its options. */
function partsOf(command: string, longest: number) {
  const words = command.split(/\s+/);
  const firstOption = words.findIndex((word) => !/^[a-z][a-z-]*$/.test(word));
  const name = words.slice(0, Math.min(longest, firstOption === -1 ? words.length : firstOption));
  const options = words.filter((word) => word.startsWith("--")).map((word) => word.slice(2).split("=")[0]!);
  return { name, options };
}

interface Schema {
  readonly options: Readonly<Record<string, unknown>>;
}

describe("docs/deploy-aws.md", () => {
  it("FUN-10 osls has its commands and their options", () => {
    const known = createRequire(import.meta.url)("osls/lib/cli/commands-schema/aws-service") as Map<
      string,
      Schema
    >;
    const used = commandsOf("npx osls@4");
    expect(used.length).toBeGreaterThan(10);
    for (const command of used) {
      const { name, options } = partsOf(command, 2);
      const schema = known.get(name.join(" "));
      expect(schema, command).toBeDefined();
      expect(Object.keys(schema!.options), command).toEqual(expect.arrayContaining(options));
    }
  });

  it("FUN-10 AWS has the operations of its commands, where their clients are installed", () => {
    const clients: Readonly<Record<string, object>> = { lambda, secretsmanager: secretsManager, sns, sqs };
    const used = commandsOf("aws").map((command) => partsOf(command, 2).name);
    const ofClients = used.filter(([service]) => service! in clients);
    expect(new Set(ofClients.map(([service]) => service)).size).toBe(4);
    for (const [service, operation] of ofClients) {
      const name = operation!.replace(/(^|-)([a-z])/g, (_, __, letter: string) => letter.toUpperCase());
      expect(Object.keys(clients[service!]!), operation).toContain(`${name}Command`);
    }
  });

  it("FUN-10 its program makes the owner's URL from the secret of RDS, whatever the password contains", () => {
    const [, program] = /node -e '\n([\s\S]*?)'\)/.exec(awsGuide)!;
    const password = `p@ss/w%rd:#?&+ "1"`;
    const url = "postgres://orders.abc.eu-central-1.rds.amazonaws.com/orders?sslmode=verify-full";
    const { stdout, stderr } = spawnSync(process.execPath, ["-e", program!], {
      input: JSON.stringify({ username: "owner", password }),
      env: { DATABASE_URL: url },
      encoding: "utf8",
    });
    expect(stderr).toBe("");
    expect(stdout.trim()).toBe(urlOfUser(url, "owner", password)); // as the function that migrates makes it
    expect(databaseKindOf(stdout.trim())).toBe("postgres");
    expect(decodeURIComponent(new URL(stdout.trim()).password)).toBe(password);
  });

  it("FUN-10 its osls commands name the region: without it a second stack would be made in another one", () => {
    const used = commandsOf("osls@4");
    expect(used.length).toBeGreaterThan(8);
    expect(used.filter((command) => !command.includes("--region $REGION"))).toEqual([]);
  });
  it("FUN-10 its users are those that migrate creates, on both databases", () => {
    expect(awsGuide).toContain(
      `-v FunctionsUser=${functionsUsers.sqlserver} -v ClientId=none -v Role=oncebox_functions`,
    );
    for (const text of [awsGuide, read("infra/aws/secrets.yml")]) {
      const postgres = [...text.matchAll(/postgres:\/\/(\w+):…/g)].map(([, user]) => user);
      expect(new Set(postgres.filter((user) => user !== "oncebox_admin"))).toEqual(
        new Set([functionsUsers.postgres]),
      );
      const sqlserver = [...text.matchAll(/mssql:\/\/(\w+):…/g)].map(([, user]) => user);
      expect(new Set(sqlserver)).toEqual(new Set([functionsUsers.sqlserver]));
    }
  });
});

/** Commands of programs that npm does not have, with the options that the guides use, as their references name them. */
const documentedCommands: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  `
az account get-access-token --resource-type
az ad group create --display-name --mail-nickname
az ad group member add --group --member-id
az ad signed-in-user show
az functionapp deployment source config-zip --resource-group --name --src
az functionapp function list --resource-group --name
az functionapp keys list --resource-group --name
az functionapp list --resource-group
az functionapp restart --resource-group --name
az login
az monitor action-group test-notifications create --resource-group --action-group-name --add-action --alert-type
az monitor app-insights query --resource-group --app --analytics-query
az monitor log-analytics query --workspace --analytics-query
az monitor log-analytics workspace show --resource-group --workspace-name
az postgres flexible-server firewall-rule create --resource-group --name --server-name --start-ip-address --end-ip-address
az postgres flexible-server show --resource-group --name
az provider register --namespace
az rest --method --url --body
az role assignment create --role --assignee-object-id --assignee-principal-type --scope
az role assignment delete --role --assignee --scope
az role assignment list --all
az sql server firewall-rule create --resource-group --name --server --start-ip-address --end-ip-address
az sql server firewall-rule delete --resource-group --name --server
az sql server show --resource-group --name
az storage message clear --queue-name --account-name --auth-mode
az storage message peek --queue-name --account-name --auth-mode --num-messages
azd auth login
azd deploy
azd down --purge
azd env get-values
azd env new --location
azd env set
azd provision
azd up
aws cloudformation create-change-set --stack-name --change-set-name --change-set-type --template-body --resources-to-import
aws cloudformation describe-stack-resource --stack-name --logical-resource-id
aws cloudformation describe-stacks --stack-name
aws cloudformation execute-change-set --stack-name --change-set-name
aws cloudformation get-template --stack-name
aws cloudformation wait change-set-create-complete --stack-name --change-set-name
aws cloudwatch describe-alarms --alarm-name-prefix
aws configure
aws ec2 authorize-security-group-ingress --group-id --protocol --port --source-group
aws ec2 describe-vpcs --vpc-ids
aws ec2 revoke-security-group-ingress --group-id --protocol --port --source-group
aws kms schedule-key-deletion --key-id --pending-window-in-days
aws lambda get-account-settings
aws lambda invoke --function-name
aws logs describe-log-groups --log-group-name-prefix
aws logs tail --since --filter-pattern
aws rds create-db-instance --db-instance-identifier --engine --db-instance-class --allocated-storage --db-name --storage-encrypted --master-username --manage-master-user-password --no-publicly-accessible
aws rds delete-db-instance
aws rds describe-db-instances --db-instance-identifier
aws rds wait db-instance-available --db-instance-identifier
aws secretsmanager create-secret --name --kms-key-id --secret-string
aws secretsmanager delete-secret --secret-id --force-delete-without-recovery
aws secretsmanager get-secret-value --secret-id
aws secretsmanager list-secrets --filters
aws secretsmanager put-secret-value --secret-id --secret-string
aws sns list-subscriptions
aws sqs purge-queue --queue-url
aws sqs send-message --queue-url --message-body --message-attributes
aws sqs start-message-move-task --source-arn
psql -f -c
sqlcmd -S -d -i -v -Q --authentication-method
`
    .trim()
    .split("\n")
    .map((line) => line.split(/ (?=-)/))
    .map(([name, ...options]) => [name!, options]),
);

/** Options of every command of a program. */
const commonOptions: Readonly<Record<string, readonly string[]>> = {
  az: ["--output", "--query"],
  aws: ["--output", "--query", "--region"],
  azd: [],
  psql: [],
  sqlcmd: [],
};

interface Call {
  readonly tool: string;
  /** The tool's name and the words after it, up to the first option or value. */
  readonly words: readonly string[];
  readonly options: readonly string[];
}

const tools = Object.keys(commonOptions);

/** The calls in blocks of shell and in code within sentences and tables. */
function callsIn(file: string): readonly Call[] {
  const text = readFileSync(join(root, file), "utf8").replaceAll(/ *\\\n */g, " ");
  const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) => block!.split("\n"));
  const inline = [...text.replaceAll(/```[\s\S]*?```/g, "").matchAll(/`([^`]+)`/g)].map(([, code]) =>
    code!.replaceAll(/\s+/g, " "),
  );
  return [...blocks, ...inline].flatMap((line) => {
    // A command within another one is a call of its own.
    const parts = line.replace(/ # .*$/, "").split(/\$\(|\) ?| \\?\| | && |; /);
    return parts.flatMap((part) => {
      const quiet = part.replaceAll(/"[^"]*"|'[^']*'/g, "text").trim();
      const [tool = "", ...rest] = quiet.replace(/^(?:export )?[A-Z_]+=/, "").split(/\s+/);
      if (!tools.includes(tool) || rest.length === 0) return [];
      const end = rest.findIndex((word) => !/^[a-z][a-z0-9-]*$/.test(word));
      const options = rest.filter((word) => /^--?[a-zA-Z]/.test(word)).map((word) => word.split("=")[0]!);
      return [{ tool, words: [tool, ...rest.slice(0, end === -1 ? rest.length : end)], options }];
    });
  });
}

/** The longest documented command that the words begin with: what follows are values. */
function commandOf({ words }: Call): string | undefined {
  for (let count = words.length; count > 0; count--) {
    const name = words.slice(0, count).join(" ");
    if (Object.hasOwn(documentedCommands, name)) return name;
  }
  return undefined;
}

const files = ["docs/deploy-aws.md", "docs/deploy-azure.md", "docs/runbook.md"];

describe("commands of other programs in the guides", () => {
  it.each([
    ["docs/deploy-aws.md", 25],
    ["docs/deploy-azure.md", 35],
    ["docs/runbook.md", 3],
  ])("FUN-10 %s: each is known, with its options", (file, atLeast) => {
    const calls = callsIn(file);
    expect(calls.length).toBeGreaterThanOrEqual(atLeast);
    for (const call of calls) {
      const line = `${call.words.join(" ")} ${call.options.join(" ")}`;
      const name = commandOf(call);
      expect(name, line).toBeDefined();
      const known = [...commonOptions[call.tool]!, ...documentedCommands[name!]!];
      expect(known, line).toEqual(expect.arrayContaining([...call.options]));
    }
  });

  it("FUN-10 so are the commands that the deployment's hooks run", () => {
    const hooks = readFileSync(join(root, "infra/azure/hooks.mjs"), "utf8");
    const calls = [...hooks.matchAll(/\baz\(("[\s\S]*?)\);/g)].map(([, args]) => args!);
    expect(calls).toHaveLength(4);
    for (const args of calls) {
      const words = [...args.matchAll(/"([a-z-]+)"/g)].map(([, word]) => word!);
      const name = commandOf({ tool: "az", words: ["az", ...words], options: [] });
      expect(name, args).toBeDefined();
      const options = words.filter((word) => word.startsWith("--"));
      expect([...commonOptions.az!, ...documentedCommands[name!]!], args).toEqual(
        expect.arrayContaining(options),
      );
    }
  });

  it("every documented command is used", () => {
    const used = new Set(files.flatMap(callsIn).map(commandOf));
    const ofHooks = [
      "az functionapp keys list",
      "az rest",
      "az role assignment create",
      "az role assignment delete",
    ];
    const unused = Object.keys(documentedCommands).filter(
      (name) => !used.has(name) && !ofHooks.includes(name),
    );
    expect(unused).toEqual([]);
  });
});
