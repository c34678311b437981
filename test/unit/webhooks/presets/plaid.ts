import { createHash, createPublicKey, generateKeyPairSync } from "node:crypto";
import { importPKCS8, SignJWT } from "jose";
import { plaid } from "../../../../src/webhooks/presets/plaid.js";
import { describePreset } from "../../../support/presets/describe-preset.js";

const keyPair = () =>
  generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
/** As /webhook_verification_key/get returns it. */
const jwk = (publicKey: string): string =>
  JSON.stringify({
    ...createPublicKey(publicKey).export({ format: "jwk" }),
    alg: "ES256",
    use: "sig",
    kid: "1",
  });

const { publicKey, privateKey } = keyPair();
const event = {
  webhook_type: "TRANSACTIONS",
  webhook_code: "SYNC_UPDATES_AVAILABLE",
  item_id: "wz666MBjYWTp",
};

describePreset("plaid", plaid, {
  secret: jwk(publicKey),
  signingSecret: privateKey,
  otherSecret: jwk(keyPair().publicKey),
  sign: async ({ body }, { at, secret }) => {
    const claims = { request_body_sha256: createHash("sha256").update(body).digest("hex") };
    const token = new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "1", typ: "JWT" })
      .setIssuedAt(Math.floor(at.getTime() / 1_000));
    return { headers: { "plaid-verification": await token.sign(await importPKCS8(secret, "ES256")) } };
  },
  event: { body: JSON.stringify(event) },
  otherEvent: { body: JSON.stringify({ ...event, item_id: "another" }) },
  stored: [{ messageId: /./, topic: "TRANSACTIONS.SYNC_UPDATES_AVAILABLE", tenant: "wz666MBjYWTp" }],
  neverDuplicate: true,
});
