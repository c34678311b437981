import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { createWebhookRoute } from "../../../src/webhooks/index.js";
import {
  type AttackTarget,
  attackedAt,
  attackTargets,
  openTarget,
  signedFor,
} from "../../support/attacks/targets.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { reception } from "../webhooks/support.js";

const day = 86_400_000;
const signsTime = (target: AttackTarget) => {
  const { verify } = target.scheme;
  return verify.kind === "signature" && verify.timestamp !== undefined;
};

/** A copy of a delivery, sent again at another time. */
async function replayed(target: AttackTarget, at: Date, secrets = target.secrets) {
  const { genuine } = await openTarget(target);
  const url = "https://hooks.example.com/webhooks/s?event=1";
  const token = target.name === "meta" ? { verifyToken: "another token of bytes" } : {};
  const route = createWebhookRoute({
    inbox: anyInbox,
    sources: { s: { scheme: target.scheme, secrets, ...token } },
    clock: () => at,
  });
  const request = new Request(genuine.url.startsWith(url) ? genuine.url : url, {
    method: "POST",
    headers: genuine.headers,
    body: genuine.body,
  });
  return (await route(request)).status;
}

describe("a replayed delivery", () => {
  it("FUN-02 is refused after the tolerance where a time is signed", async () => {
    const timed = attackTargets.filter(signsTime);
    expect(timed.length).toBeGreaterThan(3);
    for (const target of timed) {
      expect(await replayed(target, attackedAt), target.name).toBe(200);
      expect(await replayed(target, new Date(attackedAt.getTime() + 300_001)), target.name).toBe(401);
    }
  });

  it("FUN-02 is refused once its secret is gone where no time is signed", async () => {
    const untimed = attackTargets.filter((target) => !signsTime(target) && !target.isAsymmetric);
    expect(untimed.length).toBeGreaterThan(3);
    const later = new Date(attackedAt.getTime() + 40 * day);
    for (const target of untimed) {
      expect(await replayed(target, later), target.name).toBe(200); // the limit that the threat model names
      expect(await replayed(target, later, target.wrongSecret), target.name).toBe(401);
    }
  });

  it("FUN-02 FUN-05 is a duplicate until its message is purged", async () => {
    const github = attackTargets.find(({ name }) => name === "github")!;
    const { route, inbox } = await reception({
      sources: { s: { scheme: "github", secrets: github.secrets } },
    });
    const send = async () => {
      const { headers, body, url } = signedFor(github);
      const answer = await route(new Request(url, { method: "POST", headers, body }));
      return ((await answer.json()) as { readonly outcome: string }).outcome;
    };
    expect([await send(), await send()]).toEqual(["enqueued", "duplicate"]);
    const owner = newOwnerToken();
    await inbox.ack(owner, await inbox.claim({ owner }));
    expect(await send()).toBe("done");
    await expect.poll(async () => (await inbox.purgeDone({ retentionMs: 1 })).purged).toBe(1);
    expect(await send()).toBe("enqueued");
  });
});
