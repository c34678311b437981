import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  createDispatcher,
  createInbox,
  type Database,
  type HandlerEntry,
  type Inbox,
  migrate,
  type QueueMessage,
  timeBudget,
} from "../../../src/index.js";
import type { StandardSchema } from "../../../src/queue/standard-schema.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const mebibyte = 1_048_576;
const secretWords = "the words of a secret ";

describe("errors as long as a payload", () => {
  let db: Database;
  let inbox: Inbox;
  const lines: LogLine[] = [];

  beforeEach(async () => {
    lines.length = 0;
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    inbox = createInbox(db);
  });
  afterEach(() => db.close());

  const run = async (payload: string, handler: HandlerEntry<QueueMessage>) => {
    await inbox.enqueue([{ source: "s", messageId: "1", topic: "t", payload }]);
    const dispatcher = createDispatcher({ handlers: { t: handler }, logger: recordingLogger(lines) });
    const budget = timeBudget(60_000);
    const result = await dispatcher.run(inbox, budget);
    const leftMs = budget.remainingMs();
    const { lastError } = (await inbox.get({ source: "s", messageId: "1" }))!;
    return { result, leftMs, lastError: lastError! };
  };

  it("IBX-127 OBX-106 a run ends within its budget when an error quotes 5 MB of payload", async () => {
    const payload = JSON.stringify(secretWords.repeat((5 * mebibyte) / secretWords.length));
    const { result, leftMs, lastError } = await run(payload, () => {
      throw new Error(`cannot read ${payload}`);
    });
    expect(result).toMatchObject({ handled: 1 });
    expect(leftMs).toBeGreaterThan(0);
    expect(lastError).toBe("Error: cannot read [payload]");
    expect(JSON.stringify(lines)).not.toContain("secret");
    expect(JSON.stringify(lines).length).toBeLessThan(20_000);
  });

  it("IBX-127 OBX-106 a run ends within its budget when 5 MB of payload do not fit their schema", async () => {
    const payload = JSON.stringify(Array.from({ length: 400_000 }, (_, i) => `value ${i}`));
    const issues = Array.from({ length: 400_000 }, (_, i) => ({ path: [i], message: `not ${i}` }));
    const schema: StandardSchema = {
      "~standard": { version: 1, vendor: "test", validate: () => ({ issues }) },
    };
    const { result, leftMs, lastError } = await run(payload, { schema, handle: () => {} });
    expect(result).toMatchObject({ failed: 1 });
    expect(leftMs).toBeGreaterThan(0);
    expect(lastError).toMatch(/does not fit its schema: 0: .*; 19: .*; and 399980 more$/);
    expect(lastError.length).toBeLessThanOrEqual(4_000);
    expect(JSON.stringify(lines).length).toBeLessThan(20_000);
  });

  it("IBX-127 OBX-106 a value quoted by a schema's message is taken out; the paths stay", async () => {
    const schema = z.object({
      cardNumber: z.string().refine(() => false, { error: (issue) => `not ${issue.input}` }),
    });
    const { lastError } = await run('{"cardNumber":"4111-1111-1111-1111"}', { schema, handle: () => {} });
    expect(lastError).toBe(
      'PermanentFailure: The payload of "t" does not fit its schema: cardNumber: not [payload]',
    );
  });

  it("IBX-127 OBX-106 a handler's error is logged by name, code and frames, and its text is only in lastError", async () => {
    const { lastError } = await run("{}", function failingHandler() {
      throw Object.assign(new RangeError("password=hunter2-hunter2\n    at secretFrame (x:1:1)"), {
        code: "E_RANGE",
      });
    });
    expect(lastError).toContain("hunter2");
    const { fields } = lines.find(({ message }) => message === "handler failed")!;
    expect(fields.error).toBe("RangeError E_RANGE");
    expect(fields.stack).toMatch(/^at .*failingHandler .*long-errors\.test\.ts/);
    expect(JSON.stringify(lines)).not.toMatch(/hunter2|secretFrame/);
  });
});
