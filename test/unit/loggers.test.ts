import { Writable } from "node:stream";
import { Logger as Powertools } from "@aws-lambda-powertools/logger";
import { InvocationContext } from "@azure/functions";
import { pino } from "pino";
import { afterEach, describe, expect, it, vi } from "vitest";
import winston from "winston";
import { type LoggerOption, loggerOf } from "../../src/base/logger.js";
import { createDispatcher, createInbox, createOutbox, migrate, timeBudget } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

afterEach(() => vi.restoreAllMocks());

/** A stream, and the JSON of each line that was written to it. */
function lines(): { readonly stream: Writable; readonly all: () => readonly Record<string, unknown>[] } {
  let text = "";
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  const parsed = () =>
    text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { stream, all: parsed };
}

/** A message without a handler, whose warning has fields. */
async function warnInto(logger: LoggerOption | undefined): Promise<void> {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const options = logger === undefined ? {} : { logger };
  const inbox = createInbox(db, options);
  await inbox.receive({ source: "stripe", messageId: "evt_1", topic: "unknown", payload: "secret-words" });
  await createDispatcher({ handlers: {}, ...options }).run(inbox, timeBudget(60_000));
  await db.close();
}

const expected = { topic: "unknown", source: "stripe", messageId: "evt_1", onUnhandled: "retry" };
const text = "no handler for this topic";

describe("common loggers", () => {
  it("IBX-110 pino gets the message and every field", async () => {
    const { stream, all } = lines();
    await warnInto(pino({ level: "debug" }, stream));
    expect(all().find(({ msg }) => msg === text)).toMatchObject({ level: 40, ...expected });
  });

  it("IBX-110 so does a child of pino", async () => {
    const { stream, all } = lines();
    await warnInto(pino(stream).child({ service: "orders" }));
    expect(all().find(({ msg }) => msg === text)).toMatchObject({ service: "orders", ...expected });
  });

  it("IBX-110 winston gets the message and every field", async () => {
    const { stream, all } = lines();
    const transports = [new winston.transports.Stream({ stream })];
    await warnInto(winston.createLogger({ transports, format: winston.format.json() }));
    expect(all().find(({ message }) => message === text)).toMatchObject({ level: "warn", ...expected });
  });

  it("IBX-110 Powertools' logger gets the message and every field", async () => {
    const written: string[] = [];
    const logger = new Powertools({ serviceName: "orders" });
    const sink = (line: string) => void written.push(line);
    Object.assign((logger as unknown as { console: Console }).console, {
      warn: sink,
      info: sink,
      error: sink,
    });
    await warnInto(logger);
    const found = written.map((line) => JSON.parse(line)).find(({ message }) => message === text);
    expect(found).toMatchObject({ level: "WARN", ...expected });
  });

  it("IBX-110 Azure's context gets the message and every field", async () => {
    const written: unknown[][] = [];
    const context = new InvocationContext({
      functionName: "dispatch",
      invocationId: "1",
      logHandler: (level, ...args) => void written.push([level, ...args]),
    });
    await warnInto(context);
    const [level, , fields] = written.find(([, message]) => message === text)!;
    expect(level).toBe("warning");
    expect(fields).toMatchObject(expected);
  });

  it("IBX-110 the console gets the message and every field", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "info").mockImplementation(() => {});
    await warnInto(console);
    expect(warn).toHaveBeenCalledWith(text, expect.objectContaining(expected));
  });
});

describe("without a logger", () => {
  it("IBX-074 IBX-127 warnings and errors go to standard error, without the payload", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const info = vi.spyOn(console, "info");
    const log = vi.spyOn(console, "log");
    await warnInto(undefined);
    expect(warn).toHaveBeenCalledWith(`oncebox: ${text}`, expect.objectContaining(expected));
    expect(JSON.stringify(warn.mock.calls)).not.toContain("secret-words");
    expect(info).not.toHaveBeenCalled();
    expect(log).not.toHaveBeenCalled();
  });

  it("false writes nothing", async () => {
    const written = (["debug", "info", "log", "warn", "error"] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation(() => {}),
    );
    await warnInto(false);
    for (const spy of written) expect(spy).not.toHaveBeenCalled();
  });

  it("a value that is no logger is refused at once, not when it is first used", () => {
    const db = openSqlite({ file: ":memory:" });
    const wrong = { info: () => {} } as never;
    expect(() => createOutbox(db, { logger: wrong })).toThrow(/logger must have the functions debug, info/);
    expect(() => createDispatcher({ handlers: {}, logger: wrong })).toThrow(/or be false/);
  });

  it("a logger that throws fails no message", () => {
    const broken = () => {
      throw new Error("disk full");
    };
    const logger = loggerOf({ debug: broken, info: broken, warn: broken, error: broken });
    expect(() => logger.error("x", {})).not.toThrow();
  });
});
