import { readFile } from "node:fs/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { type AzureTypes, problemsOfResource } from "../../scripts/azure-types.js";
import { plannedBodies } from "./azure-variants.js";
import type { Value } from "./bicep-plan.js";

describe("the Bicep files and the types that Microsoft publishes", () => {
  let types: AzureTypes["types"];
  let bodies: ReadonlyMap<string, readonly Value[]>;
  beforeAll(async () => {
    ({ types } = JSON.parse(
      await readFile(new URL("azure-types.json", import.meta.url), "utf8"),
    ) as AzureTypes);
    bodies = await plannedBodies();
  });

  it("FUN-10 every resource of every deployment has the properties of its API version, and no others", () => {
    expect([...bodies.keys()].sort()).toEqual(Object.keys(types));
    expect(bodies.size).toBeGreaterThan(38);
    for (const [name, all] of bodies)
      expect([name, ...new Set(all.flatMap((body) => problemsOfResource(body, types[name]!)))]).toEqual([
        name,
      ]);
  });

  it("FUN-10 a misspelled property, a wrong value, a missing one and one that Azure writes are found", () => {
    const name = "Microsoft.DBforPostgreSQL/flexibleServers@2024-08-01";
    const [server] = bodies.get(name)!;
    const wrong = (change: object) =>
      problemsOfResource({ ...server, properties: { ...server.properties, ...change } }, types[name]!);
    expect(wrong({})).toEqual([]);
    expect(wrong({ versoin: "17" })).toEqual(["properties.versoin is not a property"]);
    expect(wrong({ version: 17 })).toEqual(["properties.version must be a text"]);
    expect(wrong({ network: "private" })).toEqual(["properties.network must be an object"]);
    expect(wrong({ state: "Ready" })).toEqual(["properties.state is written by Azure alone"]);
    expect(wrong({ maintenanceWindow: {} })).toEqual([
      "properties.maintenanceWindow is new here: run npm run check:bicep",
    ]);
    const { location: _, ...nowhere } = server;
    expect(problemsOfResource(nowhere, types[name]!)).toEqual([".location is missing"]);
  });
});
