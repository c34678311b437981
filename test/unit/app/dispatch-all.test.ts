import { afterEach, describe, expect, it } from "vitest";
import { dispatchAll } from "../../../src/app/dispatch-job.js";
import { type AppJobs, openJobs } from "../../../src/app/jobs.js";
import { silentLogger } from "../../../src/base/logger.js";
import { readEnvironment } from "../../../src/config/environment.js";
import {
  type AppDefinition,
  type Budget,
  createDispatcher,
  type InboxMessage,
  type OutboxMessage,
  type SqlExecutor,
  timeBudget,
} from "../../../src/index.js";
import { gate } from "../../contract/support/gate.js";

const open: AppJobs[] = [];
afterEach(() => Promise.all(open.splice(0).map((app) => app.close())));

const running = async (definition: AppDefinition): Promise<AppJobs> => {
  const app = await openJobs(
    { database: "sqlite::memory:", ...definition },
    {
      environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }),
    },
  );
  open.push(app);
  await app.migrate();
  return app;
};
const message = (topic: string) => ({ source: "s", messageId: topic, topic, payload: "" });

describe("one run over both queues", () => {
  it("FUN-03 ADD-16 ADD-21 delivers what inbox handlers return while another inbox handler still runs", async () => {
    const delivered = gate();
    const app = await running({
      handlers: {
        quick: () => ({ topic: "out", payload: "" }),
        slow: () => delivered.promise, // only the delivery lets it end
      },
      publishers: { out: () => delivered.open() },
    });
    await app.inbox.enqueue([message("slow"), message("quick")]);
    expect(await app.dispatch(timeBudget(30_000))).toMatchObject({
      inbox: { acked: 2, abandoned: 0 },
      outbox: { acked: 1 },
      more: false,
    });
  });

  it("FUN-03 delivers what the last inbox handler enqueued, in the same run", async () => {
    const outboxPolled = gate();
    let delivered = 0;
    const app = await running({
      handlers: ({ outbox }) => ({
        async late() {
          await outboxPolled.promise; // the outbox was empty at its first poll
          await outbox.enqueue({ topic: "out", payload: "" });
        },
      }),
      publishers: {
        first: () => outboxPolled.open(),
        out: () => void delivered++,
      },
    });
    await app.outbox.enqueue({ topic: "first", payload: "" });
    await app.inbox.enqueue([message("late")]);
    expect(await app.dispatch(timeBudget(30_000))).toMatchObject({ outbox: { acked: 2 }, more: false });
    expect(delivered).toBe(1);
  });

  it("ADD-04 the failure of one queue is thrown after the other has finished", async () => {
    const app = await running({});
    await app.inbox.enqueue([message("t")]);
    const handlers = { t: () => {} };
    const incoming = createDispatcher<InboxMessage, SqlExecutor>({ handlers });
    const outgoing = createDispatcher<OutboxMessage, SqlExecutor>({ handlers });
    const failing = { ...app.outbox, claim: () => Promise.reject(new Error("the outbox is away")) };
    const jobs = {
      inbox: (budget: Budget) => incoming.run(app.inbox, budget),
      outbox: (budget: Budget) => outgoing.run(failing, budget),
    };
    const options = { wokenUp: false, wakeUp: undefined, logger: silentLogger };
    await expect(dispatchAll(jobs, timeBudget(10_000), options)).rejects.toThrow("the outbox is away");
    expect((await app.inbox.stats()).counts).toMatchObject({ Done: 1 });
  });
});
