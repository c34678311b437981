import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as lambda from "@aws-sdk/client-lambda";
import * as secretsManager from "@aws-sdk/client-secrets-manager";
import * as sns from "@aws-sdk/client-sns";
import * as sqs from "@aws-sdk/client-sqs";
import { describe, expect, it } from "vitest";
import { functionsUsers } from "../../src/adapters/aws/migrate-function.js";
import { commands } from "../../src/cli/run.js";
import { urlOfUser } from "../../src/config/aws-settings.js";
import { databaseKindOf } from "../../src/config/database-url.js";
import { root } from "../support/markdown.js";

const read = (name: string) => readFileSync(join(root, name), "utf8");
const guide = read("docs/deploy-aws.md");

/** The commands of a tool: those in blocks, each on one line, and those in tables and sentences. */
function commandsOf(tool: string): readonly string[] {
  const joined = guide.replaceAll(/ *\\\n */g, " ");
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

describe("the commands of docs/deploy-aws.md", () => {
  it("FUN-10 osls has each of its commands, with these options", () => {
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

  it("FUN-10 oncebox has each of its commands, with these options", () => {
    const used = commandsOf("npx oncebox");
    expect(used.length).toBeGreaterThan(5);
    for (const command of used) {
      const { name, options } = partsOf(command, 1);
      const found = commands.find((one) => one.name === name[0]);
      expect(found, command).toBeDefined();
      expect(Object.keys(found!.options), command).toEqual(expect.arrayContaining(options));
    }
  });

  it("FUN-10 AWS has the operations that its commands name, as far as their clients are here", () => {
    const clients: Readonly<Record<string, object>> = { lambda, secretsmanager: secretsManager, sns, sqs };
    const used = commandsOf("aws").map((command) => partsOf(command, 2).name);
    const ofClients = used.filter(([service]) => service! in clients);
    expect(new Set(ofClients.map(([service]) => service)).size).toBe(4);
    for (const [service, operation] of ofClients) {
      const name = operation!.replace(/(^|-)([a-z])/g, (_, __, letter: string) => letter.toUpperCase());
      expect(Object.keys(clients[service!]!), operation).toContain(`${name}Command`);
    }
  });

  it("FUN-10 the owner's URL is made of the secret that RDS writes, whatever its password has", () => {
    const [, program] = /node -e '\n([\s\S]*?)'\)/.exec(guide)!;
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

  it("FUN-10 every command of osls names the region: without it a second stack would be made in another one", () => {
    const used = commandsOf("osls@4");
    expect(used.length).toBeGreaterThan(8);
    expect(used.filter((command) => !command.includes("--region $REGION"))).toEqual([]);
  });
});

describe("what docs/deploy-aws.md promises", () => {
  it("FUN-10 the users that it names are those that migrate makes, on both databases", () => {
    expect(guide).toContain(
      `-v FunctionsUser=${functionsUsers.sqlserver} -v ClientId=none -v Role=oncebox_functions`,
    );
    for (const text of [guide, read("infra/aws/secrets.yml")]) {
      const postgres = [...text.matchAll(/postgres:\/\/(\w+):…/g)].map(([, user]) => user);
      expect(new Set(postgres.filter((user) => user !== "oncebox_admin"))).toEqual(
        new Set([functionsUsers.postgres]),
      );
      const sqlserver = [...text.matchAll(/mssql:\/\/(\w+):…/g)].map(([, user]) => user);
      expect(new Set(sqlserver)).toEqual(new Set([functionsUsers.sqlserver]));
    }
  });
});
