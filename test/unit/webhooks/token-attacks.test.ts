import { afterEach, describe, expect, it, vi } from "vitest";
import { createWebhookRoute, type PresetName, type WebhookSource } from "../../../src/webhooks/index.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { address, post, reception } from "./support.js";

const short = "fifteen letters";
const long = "sixteen letters!";

describe("tokens that could be guessed", () => {
  const routeWith = (preset: PresetName, source: Partial<WebhookSource>) =>
    createWebhookRoute({
      inbox: anyInbox,
      logger: false,
      sources: { [preset]: { scheme: preset, ...source } as WebhookSource },
    }).prepare();

  it.each<[PresetName, (token: string) => Partial<WebhookSource>]>([
    ["gitlab", (secrets) => ({ secrets })],
    ["okta", (secrets) => ({ secrets })],
    ["eventgrid", (secrets) => ({ secrets })],
    ["mollieclassic", (secrets) => ({ secrets })],
    ["googlepush", (secrets) => ({ secrets })],
    ["msgraph", (secrets) => ({ secrets })],
    ["msgraphdata", (secret) => ({ secrets: ["8e460676-ae3f-4b1e-8790-ee0fb5d6148f", secret] })],
    ["meta", (verifyToken) => ({ secrets: long, verifyToken })],
    ["whatsapp", (verifyToken) => ({ secrets: long, verifyToken })],
    ["asana", (verifyToken) => ({ secrets: long, verifyToken })],
  ])(
    "FUN-02 %s: a token of fewer than 16 bytes is refused, unless allowShortSecrets is set",
    async (preset, of) => {
      await expect(routeWith(preset, of(short))).rejects.toThrow(/has 15 bytes; at least 16 are needed/);
      await routeWith(preset, of(long));
      await routeWith(preset, { ...of(short), allowShortSecrets: true });
    },
  );

  it("FUN-02 Notion's verify token is long, and so is a token that is fetched", async () => {
    const { notionVerification } = await import("../../../src/webhooks/presets/notion.js");
    const notion = (verifyToken: string) =>
      routeWith("notion", { secrets: long, verifyToken, handshakes: [notionVerification] });
    await expect(notion(short)).rejects.toThrow(/verifyToken\[0\] has 15 bytes/);
    await notion(long);
    const { route } = await reception({
      sources: { gitlab: { secrets: async () => short, allowShortSecrets: false } },
    });
    const answer = await route(post("gitlab", { body: "{}", headers: { "x-gitlab-token": short } }));
    expect(answer.status).toBe(503);
  });
});

describe("guessing a token", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  const gitlab = (token: string) => post("gitlab", { body: "{}", headers: { "x-gitlab-token": token } });
  const settled = async (all: readonly Promise<unknown>[]) => {
    let count = 0;
    for (const one of all) void one.then(() => count++);
    await vi.advanceTimersByTimeAsync(0);
    return () => count;
  };

  it("FUN-02 a wrong token is answered after a second, and the right one at once, however many wrong ones wait", async () => {
    const { route } = await reception({ sources: { gitlab: { secrets: long } } });
    await route(gitlab(long));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const wrong = Array.from({ length: 5 }, (_, n) => route(gitlab(`wrong token no. ${n}`)));
    const answered = await settled(wrong);
    expect((await route(gitlab(long))).status).toBe(200);
    expect(answered()).toBe(0);
    await vi.advanceTimersByTimeAsync(1_000);
    expect((await Promise.all(wrong)).map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
  });

  it("FUN-02 a bounded number waits: a flood of wrong tokens holds no more requests than that", async () => {
    const { route } = await reception({ sources: { gitlab: { secrets: long } } });
    await route(gitlab(long));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const wrong = Array.from({ length: 200 }, (_, n) => route(gitlab(`wrong token no. ${n}`)));
    const answered = await settled(wrong);
    await vi.waitFor(() => expect(answered()).toBe(150));
    expect((await route(gitlab(long))).status).toBe(200);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(new Set((await Promise.all(wrong)).map(({ status }) => status))).toEqual(new Set([401]));
  });

  it("FUN-02 the body of a wrong token in the head is not read, and the token of a handshake is slowed as well", async () => {
    const { route } = await reception({
      sources: { gitlab: { secrets: long }, meta: { secrets: long, verifyToken: long } },
      wrongTokenMs: 1,
    });
    let isRead = false;
    const body = new ReadableStream(
      {
        pull(controller) {
          isRead = true;
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    const headers = { "x-gitlab-token": "a wrong one", "content-type": "application/json" };
    const request = new Request(address("gitlab"), { method: "POST", body, headers, duplex: "half" });
    expect((await route(request)).status).toBe(401);
    expect(isRead).toBe(false);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const query = "?hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong";
    const guess = route(new Request(`${address("meta")}${query}`));
    const answered = await settled([guess]);
    expect(answered()).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect((await guess).status).toBe(401);
  });
});
