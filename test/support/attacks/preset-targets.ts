import { memoisePromise } from "../../../src/base/concurrency.js";
import {
  type DevelopmentKeys,
  developmentDocuments,
  developmentSecretOf,
  newDevelopmentKeys,
  signingWith,
} from "../../../src/cli/development-keys.js";
import { exampleEvent } from "../../../src/cli/example-event.js";
import {
  loadPreset,
  type PresetName,
  presetNames,
  signWebhook,
  type WebhookScheme,
} from "../../../src/webhooks/index.js";
import { createDelivery } from "../../../src/webhooks/schemes/delivery.js";
import { resolveSources } from "../../../src/webhooks/sources.js";
import { attackedAt, attackedSettings, type SignedDelivery } from "./targets.js";

const address = "https://hooks.example.com/webhooks/s?event=1";

/** A preset as a target: a source that verifies, a delivery that it accepts, and others of which an attacker has copies. */
export interface PresetTarget {
  readonly scheme: WebhookScheme;
  readonly secret: string;
  readonly genuine: SignedDelivery;
  /** Signed by the same key with another id, and by another key. */
  readonly others: readonly SignedDelivery[];
  verify(delivery: SignedDelivery): Promise<boolean>;
}

/** Whatever the preset is: its event is made as `oncebox sign` makes it, and signed with keys of its kind. */
export async function openPreset(name: PresetName): Promise<PresetTarget> {
  const scheme = await loadPreset(name);
  const [keys, otherKeys] = await bothKeys();
  const secret = developmentSecretOf(scheme, keys);
  const source = resolveSources({ s: { scheme, secrets: secret, ...tokenOf(scheme) } }, [], {
    ...attackedSettings,
    fetchText: (url, signal) => {
      if (!isPublished(url)) throw new Error("nothing else is fetched");
      return developmentDocuments(keys, () => attackedAt)(url, signal);
    },
  }).get("s")!;
  const otherEvent = signed(scheme, keys, "evt_2");
  return {
    scheme,
    secret,
    genuine: signed(scheme, keys, "evt_1"),
    others: [otherEvent, signed(scheme, otherKeys, "evt_1")],
    async verify({ headers, body, url }) {
      const get = (header: string) => headers[header.toLowerCase()] ?? null;
      const delivery = createDelivery({ method: "POST", url, headers: { get }, body });
      // a certificate that cannot be fetched is no acceptance either
      return source.verify(delivery).then(
        (refusal) => refusal === undefined,
        () => false,
      );
    },
  };
}

/** Of all kinds, made once: keys of RSA take a while. */
const bothKeys = memoisePromise(async () => {
  const schemes = await Promise.all(presetNames.map(loadPreset));
  return Promise.all([newDevelopmentKeys(schemes), newDevelopmentKeys(schemes)]);
});

const isPublished = (url: string): boolean =>
  /\/(oncebox\.pem|certs|keys|jwks?(\.json)?)$/.test(new URL(url).pathname);

const tokenOf = ({ handshakes = [] }: WebhookScheme) =>
  handshakes.some(({ verifyToken }) => verifyToken !== undefined)
    ? { verifyToken: "another token of bytes" }
    : {};

function signed(scheme: WebhookScheme, keys: DevelopmentKeys, id: string): SignedDelivery {
  const event = exampleEvent(scheme, id, "paid");
  const request = signWebhook(scheme, {
    ...event,
    ...signingWith(scheme, keys),
    url: address,
    timestamp: attackedAt,
    messageId: id,
  });
  const headers = Object.entries(request.headers).map(([header, value]) => [header.toLowerCase(), value]);
  return { headers: Object.fromEntries(headers), body: Buffer.from(request.body), url: request.url };
}
