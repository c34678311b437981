/** A stranger in a process of its own: sends requests in turn, so many a second, and says how they were answered. */
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export interface StrangersRequest {
  readonly what: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface StrangersTask {
  readonly requests: readonly StrangersRequest[];
  readonly perSecond: number;
  readonly count: number;
}

export interface StrangersReport {
  readonly sent: number;
  readonly seconds: number;
  /** How often each kind of request had which status; 0 where the connection failed. */
  readonly statuses: Readonly<Record<string, number>>;
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

const answerTo = ({ method, url, headers, body }: StrangersRequest): Promise<number> =>
  new Promise((resolve) => {
    const sent = request(url, { method, agent, headers }, (response) => {
      response.resume().once("close", () => resolve(response.statusCode ?? 0));
    });
    sent.once("error", () => resolve(0)).end(body);
  });

async function attack({ requests, perSecond, count }: StrangersTask): Promise<StrangersReport> {
  const statuses: Record<string, number> = {};
  const answers: Promise<void>[] = [];
  const startedAt = performance.now();
  for (let sent = 0; sent < count; ) {
    const due = Math.min(count, Math.ceil(((performance.now() - startedAt) / 1_000) * perSecond));
    for (; sent < due; sent++) {
      const one = requests[sent % requests.length]!;
      const counted = answerTo(one).then((status) => {
        const key = `${one.what}: ${status}`;
        statuses[key] = (statuses[key] ?? 0) + 1;
      });
      answers.push(counted);
    }
    await sleep(5);
  }
  await Promise.all(answers);
  agent.destroy();
  return { sent: count, seconds: (performance.now() - startedAt) / 1_000, statuses };
}

process.once("message", (task) => {
  void attack(task as StrangersTask).then((report) => process.send!(report, () => process.disconnect()));
});
