import type { Database } from "../../sql/dialect.js";
import type { Finding } from "./finding.js";

/** Signatures of webhooks tolerate minutes, and tokens of clouds too. Logs of two machines are compared by the second. */
const tolerableMs = 2_000;

/** Compares the clocks of this machine and of the database. What the round trip makes uncertain is not counted. */
export async function checkClock(
  { dialect, driver }: Pick<Database, "dialect" | "driver">,
  now: () => number = Date.now,
): Promise<readonly Finding[]> {
  const { clock } = dialect.inspection;
  if (clock === undefined) return [];
  await driver.query(clock, {}); // the first call connects
  const before = now();
  const [row] = await driver.query(clock, {});
  const after = now();
  const database = Number(row?.now);
  const skewMs = database > after ? after - database : Math.max(0, before - database);
  if (Math.abs(skewMs) <= tolerableMs) return [];
  const how = skewMs > 0 ? "ahead of" : "behind";
  return [
    {
      check: "clock",
      level: "problem",
      message: `This machine's clock is ${Math.round(Math.abs(skewMs) / 1000)} s ${how} the database's. Signatures with a time may be refused.`,
      run: process.platform === "win32" ? "w32tm /resync" : "timedatectl set-ntp true",
    },
  ];
}
