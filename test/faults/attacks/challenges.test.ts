import { expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { reportProgress } from "../../support/attacks/progress.js";
import { attackedAt } from "../../support/attacks/targets.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { seededRandom } from "../../support/seeded-random.js";
import { times } from "../../support/times.js";

const random = seededRandom(20);
const below = (limit: number): number => Math.floor(random() * limit);
const seconds = String(attackedAt.getTime() / 1_000);

/** What a forger wants to have signed: an event, with what the scheme signs beside it. */
const templates: Readonly<
  Record<string, { readonly signed: string; readonly content: (body: string) => string }>
> = {
  "the body": { signed: "{body}", content: (body) => body },
  "time and body": { signed: "{timestamp}.{body}", content: (body) => `${seconds}.${body}` },
  "a header and the body": { signed: "{header:x-id}.{body}", content: (body) => `id-1.${body}` },
};

const schemeOf = (signed: string): WebhookScheme => ({
  verify: {
    kind: "signature",
    header: "x-s",
    signed,
    ...(signed.includes("timestamp") ? { timestamp: { header: "x-t" } } : {}),
  },
  handshakes: [
    {
      method: "GET",
      when: { "{query:crc}": true },
      unsigned: true,
      answer: { text: "{hmac}", hmac: "{query:crc}" },
    },
  ],
});

const letters = "abcXYZ019_.~+/=-";
const noise = (alphabet: string) =>
  Array.from({ length: 1 + below(below(4) === 0 ? 300 : 40) }, () => alphabet[below(alphabet.length)]).join(
    "",
  );

/** Events as JSON, forms and texts; some of which look like a challenge. */
const event = (): string =>
  [
    () => JSON.stringify({ id: noise(letters) }),
    () => JSON.stringify([noise(letters)]),
    () => `${noise("abc")}=${noise(letters)}`,
    () => noise(letters),
    () => noise(`${letters} {}"\n`),
    () => `"${noise(letters)}"`,
    () => String(below(1e9)),
  ][below(7)]!();

it.each(Object.keys(templates))(
  "FUN-02 where %s is signed, no answer to a challenge is the signature of a delivery that is accepted",
  async (name) => {
    const { signed, content } = templates[name]!;
    const receive = createWebhookReceiver(
      {
        inbox: anyInbox,
        sources: { x: { scheme: schemeOf(signed), secrets: "a secret of many bytes" } },
        clock: () => attackedAt,
      },
      checkScheme,
    );
    const url = "http://127.0.0.1/webhooks/x";
    const count = times(1_000);
    const progress = reportProgress(`challenges, ${name}`, count);
    let answered = 0;
    const forged: string[] = [];
    for (let done = 0; done < count; done++) {
      await progress(done);
      const body = event();
      const asked = `${url}?crc=${encodeURIComponent(content(body))}`;
      const answer = await receive({ method: "GET", url: asked, headers: { get: () => null }, body: null });
      if (answer.status !== 200) continue;
      answered++;
      const headers: Record<string, string> = { "x-s": answer.body!, "x-t": seconds, "x-id": "id-1" };
      const get = (header: string) => headers[header] ?? null;
      const { status } = await receive({ method: "POST", url, headers: { get }, body: Buffer.from(body) });
      if (status !== 401) forged.push(body);
    }
    console.log(
      `challenges, ${name}: ${count} asked, ${answered} answered, ${forged.length} forged deliveries accepted`,
    );
    expect(answered).toBeGreaterThan(count / 20);
    expect(forged.slice(0, 3)).toEqual([]);
  },
  600_000,
);
