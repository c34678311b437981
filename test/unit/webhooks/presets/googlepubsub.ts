import { importPKCS8, SignJWT } from "jose";
import { expect, it } from "vitest";
import { googlepubsub } from "../../../../src/webhooks/presets/googlepubsub.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { now, openPresetRoutes } from "../../../support/presets/preset-route.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";
import { rsaPrivateKey, rsaPublicJwk } from "../../../support/presets/rsa-key.js";

const audience = "https://hooks.example.com/webhooks/pubsub";
const email = "push@project.iam.gserviceaccount.com";

async function tokenWith(claims: object, issuer = "https://accounts.google.com"): Promise<string> {
  const seconds = now.getTime() / 1_000;
  return new SignJWT({
    aud: audience,
    email,
    email_verified: true,
    iat: seconds,
    exp: seconds + 3_600,
    ...claims,
  })
    .setProtectedHeader({ alg: "RS256", kid: "1" })
    .setIssuer(issuer)
    .sign(await importPKCS8(rsaPrivateKey, "RS256"));
}

const bodyOf = (messageId: string, deliveryAttempt: number) => ({
  body: JSON.stringify({
    message: { messageId, data: "aGVsbG8=" },
    subscription: "projects/p/subscriptions/s",
    deliveryAttempt,
  }),
});

const sample: PresetSample = {
  secret: audience,
  otherSecret: "https://other.example.com/",
  source: {},
  sign: async (_event, { at }) => {
    const seconds = at.getTime() / 1_000;
    const token = await tokenWith({ email: audience, iat: seconds, exp: seconds + 3_600 });
    return { headers: { authorization: `Bearer ${token}` } };
  },
  event: bodyOf("136969346945", 1),
  retry: bodyOf("136969346945", 2),
  otherEvent: bodyOf("136969346946", 1),
  stored: [{ messageId: "projects/p/subscriptions/s/136969346945", topic: "projects/p/subscriptions/s" }],
  tamper: "unnoticed",
  route: { fetchText: async () => JSON.stringify({ keys: [{ ...rsaPublicJwk, kid: "1", alg: "RS256" }] }) },
  ours: { privateKey: rsaPrivateKey },
};

describePreset("googlepubsub", googlepubsub, sample);

it.each([
  ["the audience and the account of the source", {}, 200],
  ["another service account", { email: "attacker@other.iam.gserviceaccount.com" }, 401],
  ["another audience", { aud: "https://elsewhere.example.com" }, 401],
  ["no account", { email: undefined }, 401],
  ["an hour that is over", { exp: now.getTime() / 1_000 - 3_600 }, 401],
])("FUN-02 Pub/Sub: %s", async (_what, claims, status) => {
  const routes = await openPresetRoutes("pubsub-more", googlepubsub, {
    ...sample,
    source: { secrets: [audience, email] },
  });
  const headers = { authorization: `Bearer ${await tokenWith(claims)}` };
  expect((await routes.open().send({ ...sample.event, headers })).status).toBe(status);
  await routes.close();
});
