/**
 * The CPU time of the worst bodies that a webhook route gets, for every preset: from a sender that is proven, and from one that is
 * not. The inbox stores nothing: what is measured is verifying, reading and cutting. `node --import ./bench/typescript.mjs
 * bench/webhook-bodies.ts [preset …]`
 */
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  newDevelopmentKeys,
  signingWith,
} from "../src/cli/development-keys.js";
import { exampleEvent } from "../src/cli/example-event.js";
import {
  loadPreset,
  type PresetName,
  presetNames,
  signWebhook,
  type WebhookScheme,
} from "../src/webhooks/index.js";
import { createWebhookReceiver } from "../src/webhooks/route.js";
import { checkScheme } from "../src/webhooks/schemes/check-scheme.js";

const url = "https://hooks.example.com/webhooks/source";
const maxBodyBytes = 5 * 1_048_576;
/** Of a body that has its own proof. */
const maxParsedBytes = 1_048_576;
const targets = { proven: 50, unproven: 20 } as const;
const runs = 7;

/** What fills a body: each may cost the most at some step. */
const fillings: Readonly<Record<string, (bytes: number) => string>> = {
  lists: (bytes) => `[${repeated("[]", bytes)}]`,
  objects: (bytes) => `[${repeated('{"a":0}', bytes)}]`,
  numbers: (bytes) => `[${repeated("1", bytes)}]`,
  keys: (bytes) => `{${repeated('"id":0', bytes)}}`,
  "escaped keys": (bytes) => `{${repeated('"\\u0069":0', bytes)}}`,
  "nested lists": (bytes) => `[${repeated(`${"[".repeat(400)}${"]".repeat(400)}`, bytes)}]`,
  "other letters": (bytes) => `"${"é".repeat(bytes / 2)}"`,
  escapes: (bytes) => `"${"\\n".repeat(bytes / 2)}"`,
};

const repeated = (text: string, bytes: number): string =>
  `${text},`.repeat(Math.max(1, Math.floor(bytes / (text.length + 1)))).slice(0, -1);

interface Body {
  readonly name: string;
  readonly text: string;
}

/** The example event of the preset, filled up; and for a form, forms of many fields and of one long one. */
function bodiesFor(scheme: WebhookScheme, example: string, size: number): readonly Body[] {
  if (!/^\s*[[{]/.test(example)) return formsFor(example, size);
  const { split } = checkScheme(scheme, []);
  const room = size - example.length - 1_000;
  const filled = Object.entries(fillings).map(([name, fill]) => ({
    name,
    text: withMember(example, fill(room)),
  }));
  if (split === undefined) return filled;
  const count = size > maxParsedBytes ? 4_900 : 900;
  const events = Object.entries(fillings).map(([name, fill]) => ({
    name: `events of ${name}`,
    text: withItems(example, split.path, count, fill(Math.max(2, room / count - example.length - 20))),
  }));
  return [
    ...filled,
    ...events,
    { name: "a list of numbers", text: withList(example, split.path, `[${repeated("1", room)}]`) },
  ];
}

const formsFor = (example: string, size: number): readonly Body[] => [
  { name: "many fields", text: `${example}${"&a".repeat((size - example.length) / 2)}` },
  {
    name: "9,000 fields",
    text: `${example}${`&${"a".repeat(size / 9_500)}=1`.repeat(9_000)}`.slice(0, size),
  },
  { name: "a long field", text: `${example}&a=${"x".repeat(size - example.length - 3)}` },
  { name: "an escaped field", text: `${example}&a=${"%41".repeat((size - example.length - 3) / 3)}` },
];

/** Adds a member to the document, or to the first item of the list that it is. */
const withMember = (example: string, value: string): string =>
  example.replace(/\}(\s*\]?\s*)$/, `,"filling":${value}}$1`);

function withItems(example: string, path: readonly string[], count: number, value: string): string {
  const items = itemsOf(JSON.parse(example), path);
  const item = JSON.stringify(items[0] ?? {});
  const filled = item === "{}" ? `{"filling":${value}}` : item.replace(/\}$/, `,"filling":${value}}`);
  return withList(example, path, `[${`${filled},`.repeat(count).slice(0, -1)}]`);
}

/** With this text in the place of the list. */
function withList(example: string, path: readonly string[], list: string): string {
  const mark = "the list of this body";
  const steps = path.map((step) => (step === "*" ? "0" : step));
  const document: Record<string, unknown> = { document: JSON.parse(example) };
  let inner = document;
  let last = "document";
  for (const step of steps) {
    inner = inner[last] as Record<string, unknown>;
    last = step;
  }
  inner[last] = mark;
  return JSON.stringify(document.document).replace(`"${mark}"`, () => list);
}

function itemsOf(document: unknown, path: readonly string[]): readonly unknown[] {
  let found: unknown = document;
  for (const step of path) found = Object(found)[step === "*" ? "0" : step];
  return Array.isArray(found) ? found : [found];
}

async function measure(name: PresetName, keys: DevelopmentKeys, otherKeys: DevelopmentKeys) {
  const scheme = await loadPreset(name);
  const receive = createWebhookReceiver(
    {
      inbox: {
        receive: async () => "enqueued",
        enqueue: async (messages: readonly unknown[]) => messages.map(() => "enqueued" as const),
      },
      logger: false,
      receiveMs: 60_000,
      wrongTokenMs: 0,
      maxBodyBytes,
      fetchText: developmentDocuments(keys),
      sources: { source: { scheme, secrets: developmentSecretOf(scheme, keys), ...tokenOf(scheme) } },
    },
    checkScheme,
  );
  const worst = { proven: { ms: 0, body: "", status: 0 }, unproven: { ms: 0, body: "", status: 0 } };
  const event = exampleEvent(scheme, "evt_1", "paid");
  for (const { name: body, text } of bodiesFor(scheme, event.body, sizeFor(scheme)))
    for (const [kind, by] of [
      ["proven", keys],
      ["unproven", otherKeys],
    ] as const) {
      const signed = signedBy(by, scheme, { ...event, body: text });
      if (signed === undefined) continue;
      const { ms, status } = await fastest(receive, signed);
      if (ms > worst[kind].ms) worst[kind] = { ms, body, status };
    }
  return worst;
}

/** Undefined for a body that lacks what the provider signs of it. */
function signedBy(keys: DevelopmentKeys, scheme: WebhookScheme, event: ReturnType<typeof exampleEvent>) {
  try {
    return signWebhook(scheme, { ...event, ...signingWith(scheme, keys), url, messageId: "evt_1" });
  } catch {
    return undefined;
  }
}

/** A body that has its own proof is parsed first, and so is short. */
function sizeFor({ verify }: WebhookScheme): number {
  const inBody =
    verify.kind === "signature"
      ? verify.signatureIn !== undefined
      : /\{(item|json):/.test([verify.token].flat().join());
  return inBody ? maxParsedBytes - 20_000 : maxBodyBytes - 20_000;
}

const tokenOf = ({ handshakes = [] }: WebhookScheme) =>
  handshakes.some(({ verifyToken }) => verifyToken !== undefined)
    ? { verifyToken: "another token of bytes" }
    : {};

/** Processor time, which other work on the machine lengthens little. */
async function fastest(
  receive: ReturnType<typeof createWebhookReceiver>,
  signed: ReturnType<typeof signWebhook>,
) {
  const headers = new Headers(signed.headers);
  const body = Buffer.from(signed.body as string);
  let ms = Number.POSITIVE_INFINITY;
  let status = 0;
  for (let run = 0; run < runs; run++) {
    const before = process.cpuUsage();
    ({ status } = await receive({ method: "POST", url: signed.url, headers, body }));
    const { user, system } = process.cpuUsage(before);
    ms = Math.min(ms, (user + system) / 1_000);
  }
  return { ms, status };
}

const named = process.argv.slice(2) as PresetName[];
const names = named.length > 0 ? named : presetNames;
const schemes = await Promise.all(names.map(loadPreset));
const [keys, otherKeys] = [await newDevelopmentKeys(schemes), await newDevelopmentKeys(schemes)];
const shown = ({ ms, body, status }: { ms: number; body: string; status: number }, target: number) =>
  `${ms.toFixed(1)} ms${ms > target ? " MISSED" : ""} | ${body}, ${status}`;
console.log(
  `| preset | proven, at most ${targets.proven} ms | by | unproven, at most ${targets.unproven} ms | by |\n|---|---|---|---|---|`,
);
for (const name of names) {
  const { proven, unproven } = await measure(name, keys, otherKeys);
  console.log(`| ${name} | ${shown(proven, targets.proven)} | ${shown(unproven, targets.unproven)} |`);
}
