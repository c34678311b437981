import { describe, expect, it } from "vitest";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { refusalIntervalMs } from "../../../src/http/refusal-log.js";
import { resultLog } from "../../../src/webhooks/responses.js";

function started() {
  const lines: { level: string; fields: LogFields }[] = [];
  const at = (level: string) => (message: string, fields: LogFields) => {
    expect(message).toBe("webhook");
    lines.push({ level, fields });
  };
  const logger = Object.fromEntries(["debug", "info", "warn", "error"].map((level) => [level, at(level)]));
  const time = { now: 1_000_000 };
  return { lines, time, log: resultLog(logger as unknown as Logger, () => time.now) };
}

const refusal = { source: "stripe", outcome: "unauthorized", status: 401, reason: "signature" };

describe("the lines on webhooks", () => {
  it("FUN-01 refused requests are logged once per interval, and the next line counts those between", () => {
    const { lines, time, log } = started();
    for (let count = 0; count < 1_000; count++) log(refusal);
    expect(lines).toEqual([{ level: "warn", fields: refusal }]);
    time.now += refusalIntervalMs - 1;
    log(refusal);
    expect(lines).toHaveLength(1);
    time.now += 1;
    log(refusal);
    expect(lines[1]).toEqual({ level: "warn", fields: { ...refusal, refusedSinceLastLine: 1_000 } });
    time.now += refusalIntervalMs;
    log(refusal);
    expect(lines[2]!.fields).toEqual(refusal); // none between
  });

  it("FUN-01 another source, outcome and reason have lines of their own, up to a hundred", () => {
    const { lines, log } = started();
    const others = [
      { ...refusal, reason: "timestamp" },
      { ...refusal, source: "github" },
      { ...refusal, outcome: "too large", status: 413 },
    ];
    for (const fields of [refusal, ...others, refusal, ...others]) log(fields);
    expect(lines.map(({ fields }) => fields)).toEqual([refusal, ...others]);
    for (let count = 0; count < 500; count++) log({ ...refusal, reason: `reason ${count}` });
    expect(lines).toHaveLength(101); // the last one stands for all other reasons
  });

  it("FUN-01 what a verified sender sent is logged each time, when it fails as well", () => {
    const { lines, log } = started();
    const accepted = { source: "stripe", outcome: "enqueued", status: 200, messageId: "evt_1" };
    const failed = { ...accepted, outcome: "unavailable", status: 503 };
    for (const fields of [accepted, accepted, failed, failed]) log(fields);
    expect(lines.map(({ level }) => level)).toEqual(["info", "info", "error", "error"]);
  });

  it("FUN-01 a clock that is set back does not silence the log", () => {
    const { lines, time, log } = started();
    log(refusal);
    time.now -= 3_600_000;
    log(refusal);
    expect(lines).toHaveLength(2);
  });
});
