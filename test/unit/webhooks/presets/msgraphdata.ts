import { constants, createCipheriv, createHmac, createPublicKey, publicEncrypt } from "node:crypto";
import { importPKCS8, SignJWT } from "jose";
import { expect, it } from "vitest";
import { decryptGraphContent, msgraphdata } from "../../../../src/webhooks/presets/msgraphdata.js";
import { describePreset } from "../../../support/presets/describe-preset.js";
import { now, openPresetRoutes } from "../../../support/presets/preset-route.js";
import type { PresetSample } from "../../../support/presets/preset-sample.js";
import { rsaPrivateKey, rsaPublicJwk } from "../../../support/presets/rsa-key.js";

const appId = "8e460676-ae3f-4b1e-8790-ee0fb5d6148f";
const tenantId = "84bd8158-6d4d-4958-8b9f-9d6445542f95";
const publisher = "0bf30f3b-4a52-48df-9a82-234910c4a086";

/** As in the example of Microsoft's documentation. */
async function tokenWith(claims: object = {}): Promise<string> {
  const seconds = now.getTime() / 1_000;
  const iss = `https://sts.windows.net/${tenantId}/`;
  const usual = { aud: appId, iss, iat: seconds, nbf: seconds, exp: seconds + 28_200, ver: "1.0" };
  return new SignJWT({ ...usual, appid: publisher, appidacr: "2", tid: tenantId, ...claims })
    .setProtectedHeader({ alg: "RS256", kid: "1" })
    .sign(await importPKCS8(rsaPrivateKey, "RS256"));
}

const created = {
  id: "lsgTZMr9KwAAA",
  subscriptionId: "76222963-cc7b-42d2-882d-8aaa69cb2ba3",
  clientState: "CLIENT-STATE",
  changeType: "created",
  tenantId,
  encryptedContent: { data: "", dataKey: "", dataSignature: "" },
};
const bodyOf = (...value: readonly object[]) => ({ body: JSON.stringify({ value }) });
const storedOf = ({ subscriptionId, id, changeType }: typeof created) => ({
  messageId: `${subscriptionId}/${id}`,
  topic: changeType,
  tenant: tenantId,
});

/** Writes the clientState, and the tokens after the notifications. */
const withTokens = (body: string, secret: string, tokens: readonly string[]) => {
  const { value } = JSON.parse(body.replaceAll("CLIENT-STATE", secret));
  return { body: JSON.stringify({ value, validationTokens: tokens }) };
};

const sample: PresetSample = {
  secret: appId,
  otherSecret: "9e460676-ae3f-4b1e-8790-ee0fb5d6148f",
  sign: async ({ body }, { at, secret }) => {
    const seconds = at.getTime() / 1_000;
    return withTokens(body, secret, [await tokenWith({ iat: seconds, nbf: seconds, exp: seconds + 28_200 })]);
  },
  event: bodyOf(created, { ...created, id: "2" }),
  otherEvent: bodyOf({ ...created, id: "3" }),
  stored: [storedOf(created), storedOf({ ...created, id: "2" })],
  cutAgain: {
    batches: [bodyOf({ ...created, id: "2" }, { ...created, id: "4" })],
    stored: ["lsgTZMr9KwAAA", "2", "4"].map((id) => storedOf({ ...created, id })),
  },
  tamper: "unnoticed",
  answer: { status: 202, text: "" },
  route: { fetchText: async () => JSON.stringify({ keys: [{ ...rsaPublicJwk, kid: "1" }] }) },
  ours: { privateKey: rsaPrivateKey },
};

describePreset("msgraphdata", msgraphdata, sample);

const otherTenant = "aaaabbbb-0000-cccc-1111-dddd2222eeee";
const ofOther = { tid: otherTenant, iss: `https://sts.windows.net/${otherTenant}/` };
const version2 = { iss: `https://login.microsoftonline.com/${tenantId}/v2.0`, appid: undefined };

it.each([
  ["the app, its tenant and its clientState", [{}], [created], 202],
  ["a token of version 2", [{ ...version2, azp: publisher }], [created], 202],
  [
    "two tenants with a token each",
    [{}, ofOther],
    [created, { ...created, id: "2", tenantId: otherTenant }],
    202,
  ],
  ["a tenant without a token", [{}], [created, { ...created, tenantId: otherTenant }], 401],
  ["a notification that names no tenant", [{}], [{ ...created, tenantId: undefined }], 401],
  ["no token", [], [created], 401],
  ["one wrong token of two", [{}, { aud: "another-app" }], [created], 401],
  ["a token that another app has sent", [{ appid: "another-app" }], [created], 401],
  ["the issuer of another tenant", [{ iss: ofOther.iss }], [created], 401],
  ["an hour that is over", [{ exp: now.getTime() / 1_000 - 3_600 }], [created], 401],
  ["another clientState", [{}], [created, { ...created, clientState: "wrong" }], 401],
  ["the id of the app, which is no secret, as clientState", [{}], [{ ...created, clientState: appId }], 401],
])("FUN-02 Graph with resource data: %s", async (_what, tokens, notifications, status) => {
  const routes = await openPresetRoutes("msgraphdata-more", msgraphdata, {
    ...sample,
    source: { secrets: [appId, "a-client-state"] },
  });
  try {
    const all = await Promise.all(tokens.map((claims) => tokenWith(claims)));
    const route = routes.open();
    const answer = await route.send(withTokens(bodyOf(...notifications).body, "a-client-state", all));
    expect(answer.status, String(route.reason())).toBe(status);
    expect(await route.messages()).toHaveLength(status === 202 ? notifications.length : 0);
  } finally {
    await routes.close();
  }
});

const consumers = "9188040d-6c67-4c5b-b112-36a304b66dad";

it.each([
  ["all tenants", "https://login.microsoftonline.com/{tenantid}/v2.0", {}, 202],
  ["all tenants, a token of version 2", "https://login.microsoftonline.com/{tenantid}/v2.0", version2, 202],
  ["this tenant", `https://login.microsoftonline.com/${tenantId}/v2.0`, {}, 202],
  ["the accounts of consumers", `https://login.microsoftonline.com/${consumers}/v2.0`, {}, 401],
  ["another tenant", `https://login.microsoftonline.com/${otherTenant}/v2.0`, version2, 401],
  ["another cloud", "https://login.partner.microsoftonline.cn/{tenantid}/v2.0", {}, 401],
])("FUN-02 Graph with resource data: a key of %s", async (_what, issuer, claims, status) => {
  const keys = [{ ...rsaPublicJwk, kid: "1", issuer }];
  const routes = await openPresetRoutes("msgraphdata-issuers", msgraphdata, {
    ...sample,
    source: { secrets: [appId, "a-client-state-of-bytes"] },
    route: { fetchText: async () => JSON.stringify({ keys }) },
  });
  try {
    const token = await tokenWith({ ...claims, azp: publisher });
    const route = routes.open();
    const answer = await route.send(withTokens(bodyOf(created).body, "a-client-state-of-bytes", [token]));
    expect(answer.status, String(route.reason())).toBe(status);
  } finally {
    await routes.close();
  }
});

/** Encrypted by the steps of Microsoft's documentation, the other way round. */
function encrypted(text: string) {
  const key = Buffer.alloc(32, "k3y");
  const cipher = createCipheriv("aes-256-cbc", key, key.subarray(0, 16));
  const data = Buffer.concat([cipher.update(text), cipher.final()]);
  const oaep = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha1" };
  const dataKey = publicEncrypt({ key: createPublicKey(rsaPrivateKey), ...oaep }, key);
  return {
    data: data.toString("base64"),
    dataKey: dataKey.toString("base64"),
    dataSignature: createHmac("sha256", key).update(data).digest("base64"),
    encryptionCertificateId: "our-certificate",
  };
}

it("FUN-02 Graph's resource data is decrypted, and refused where it was changed or is for another key", () => {
  const content = encrypted('{"body":"Zoë ☃"}');
  expect(decryptGraphContent(content, rsaPrivateKey)).toBe('{"body":"Zoë ☃"}');
  const changed = { ...content, data: encrypted('{"body":"other"}').data };
  expect(() => decryptGraphContent(changed, rsaPrivateKey)).toThrow(/dataSignature is wrong/);
  const forOther = { ...content, dataKey: content.dataSignature };
  expect(() => decryptGraphContent(forOther, rsaPrivateKey)).toThrow(/private key.*our-certificate/);
});
