import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type BundledChild, bundleChild } from "../../support/bundled-child.js";
import { cli } from "../../support/cli.js";
import { damageFile } from "../../support/damage-file.js";
import { serviceProcesses } from "../../support/service-processes.js";
import { exactlyOnce, type Side, startTwoServices } from "./two-services.js";

const run = promisify(execFile);
const queryFile = fileURLToPath(new URL("query-child.ts", import.meta.url));

const afterLease = String(10 * 60_000);

describe("SQLite file corruption", () => {
  const processes = serviceProcesses(afterAll);
  let queryChild: BundledChild;
  beforeAll(async () => {
    queryChild = await bundleChild(queryFile);
  });
  afterAll(() => queryChild.remove());

  /** A file that this process never opens: one that is in use is not restored. */
  const sideOf = (url: string): Side => ({
    url,
    async query(sql) {
      const { stdout } = await run(process.execPath, ["--no-warnings", queryChild.path, url, sql]);
      return JSON.parse(stdout) as Readonly<Record<string, unknown>>[];
    },
  });

  const start = async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-damaged-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const files = { orders: join(folder, "orders.db"), inventory: join(folder, "inventory.db") };
    const sides = { orders: sideOf(files.orders), inventory: sideOf(files.inventory) };
    const services = await startTwoServices(processes, sides, onTestFinished);
    const backups = join(folder, "backups");

    const backUp = async (name: "orders" | "inventory"): Promise<void> => {
      expect(await cli("backup", files[name], "--to", backups)).toMatchObject({ code: 0, err: "" });
    };
    /** Kills the service, damages its file, and restores it. The service is not started again. */
    const damageAndRestore = async (name: "orders" | "inventory"): Promise<void> => {
      await services[name].kill();
      await damageFile(files[name], 100); // a file that was never checkpointed has no more than its first page
      await expect(services.rows(name, name === "orders" ? "orders" : "reservations")).rejects.toThrow(
        "is damaged",
      );
      const [backup] = await readdir(backups);
      const args = ["--from", join(backups, backup!), "--to", files[name], "--force"];
      expect(await cli("restore", ...args)).toMatchObject({ code: 0 });
    };
    const startAgain = async (name: "orders" | "inventory"): Promise<void> => {
      await services[name].startAgain();
      await services.call(services[name], "/later", afterLease); // the back-up has the leases of its time
    };
    await services.place("first");
    await services.settled();
    return { services, backUp, damageAndRestore, startAgain };
  };

  it("MSG-11 MSG-16 MSG-21 after the sender's file is restored, messages sent since the back-up are sent again and are duplicates", async () => {
    const { services, backUp, damageAndRestore, startAgain } = await start();
    const { points } = services;
    const reached = points.hold("orders: before the send");
    const some = ["a", "b", "c"];
    for (const id of some) await services.place(id);
    await reached;
    await backUp("orders");
    points.release();
    await services.settled();
    expect(await services.rows("orders", "responses")).toEqual([...some, "first"]);

    await damageAndRestore("orders");
    expect(await services.rows("orders", "orders")).toEqual([...some, "first"]);
    expect(await services.rows("orders", "responses")).toEqual(["first"]);
    await startAgain("orders");
    await services.place("last");
    await services.settled();
    expect(await services.tally()).toEqual(exactlyOnce("first", ...some, "last"));
    expect(points.passed("inventory: in the handler")).toBe(5);
  });

  it("MSG-11 MSG-16 MSG-21 after the receiver's file is restored, unacknowledged messages are sent again and handled once", async () => {
    const { services, backUp, damageAndRestore, startAgain } = await start();
    const { points } = services;
    const reached = points.hold("inventory: before the acknowledgement");
    await services.place("handled before the back-up");
    await reached;
    await backUp("inventory");
    await services.place("handled after the back-up");
    const both = ["first", "handled after the back-up", "handled before the back-up"];
    await expect.poll(() => services.rows("inventory", "reservations")).toEqual(both);

    await damageAndRestore("inventory");
    expect(await services.rows("inventory", "reservations")).toEqual(["first", "handled before the back-up"]);
    await services.place("while it was away");
    points.release();
    await startAgain("inventory");
    await services.settled();
    expect(await services.tally()).toEqual(exactlyOnce(...both, "while it was away"));
  });
});
