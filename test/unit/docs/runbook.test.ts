import { readdirSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type BicepObject, readBicepFiles } from "../../../scripts/bicep-files.js";
import { checks } from "../../../src/cli/check-schema.js";
import { commandLinesIn, problemOf } from "../../support/command-lines.js";
import { readDocument } from "../../support/markdown.js";

const page = readDocument("docs/runbook.md");
const [, alarmsPart = ""] = /^## Alarms$([\s\S]*?)^## /m.exec(page) ?? [];
/** Each section of the part on alarms: its title, then what it says. */
const sections = alarmsPart.split(/^### /m).slice(1);

interface Alarm {
  readonly name: string;
  readonly description: string;
}

/** Everything in a parsed file that is an alarm of CloudWatch, however deep. */
function alarmsIn(value: unknown, name = ""): readonly Alarm[] {
  if (typeof value !== "object" || value === null) return [];
  const { Type, Properties } = value as { Type?: string; Properties?: { AlarmDescription?: string } };
  if (Type === "AWS::CloudWatch::Alarm") return [{ name, description: String(Properties?.AlarmDescription) }];
  return Object.entries(value).flatMap(([key, one]) => alarmsIn(one, key));
}

const ofAws = (): readonly Alarm[] =>
  ["serverless.yml", ...readdirSync("infra/aws").map((name) => `infra/aws/${name}`)].flatMap((name) =>
    alarmsIn(parse(readDocument(name))),
  );

/** The rules of every list of rules in the Bicep files. */
const ofAzure = async (): Promise<readonly Alarm[]> =>
  (await readBicepFiles())
    .flatMap(({ variables }) => Object.values(variables))
    .flatMap((list) => (Array.isArray(list) ? (list as readonly BicepObject[]) : []))
    .filter((rule) => typeof rule === "object" && ("query" in rule || "metric" in rule))
    .map(({ name, description }) => ({ name: String(name), description: String(description) }));

describe("docs/runbook.md", () => {
  let alarms: readonly Alarm[];
  beforeAll(async () => {
    alarms = [...ofAws(), ...(await ofAzure())];
  });

  it("FUN-10 has a section for every alarm of the templates, and for no other", () => {
    expect(alarms.length).toBeGreaterThan(5);
    const named = sections.flatMap((section) => {
      const [line = ""] = section.split("**It means:**");
      return [...line.matchAll(/`(\w+Alarm|[a-z]+(?:-[a-z]+)*)`/g)].map(([, name]) => name!);
    });
    expect([...new Set(named)].sort()).toEqual(alarms.map(({ name }) => name).sort());
  });

  it("FUN-10 ADD-07 every alarm names the command to run, which its section has too", async () => {
    for (const { name, description } of alarms) {
      expect(description, name).toMatch(/\. Run: oncebox [a-z]/);
      expect(description.length, name).toBeLessThan(1_024);
      const lines = commandLinesIn(description);
      expect(lines, name).toHaveLength(1);
      expect(await problemOf(lines[0]!), name).toBeUndefined();
      const own = sections.filter((section) => section.includes(`\`${name}\``));
      expect(commandLinesIn(own.join("\n")), name).toContainEqual(lines[0]);
    }
  });

  it("ADD-14 has a row for every check of doctor", () => {
    const [, table = ""] = page.split(/^## What doctor finds$/m);
    expect([...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, check]) => check)).toEqual(checks);
  });
});
