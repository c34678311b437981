import twilio from "twilio";
import { describe, expect, it } from "vitest";
import {
  type AttackTarget,
  attackTargets,
  openTarget,
  type SignedDelivery,
  signedFor,
} from "../../support/attacks/targets.js";
import { twilioAmbiguities, twilioAmbiguity, twilioMutation } from "../../support/attacks/twilio.js";
import { seededRandom } from "../../support/seeded-random.js";

const target = attackTargets.find(({ name }) => name === "twilio") as AttackTarget;

describe("ambiguities of Twilio's signature", () => {
  it("FUN-02 of 1,000 changed URLs and forms, only those with Twilio's own signature are accepted", async () => {
    const { verify, genuine } = await openTarget(target);
    const random = seededRandom(6);
    const below = (limit: number) => Math.floor(random() * limit);
    const accepted = new Set<string>();
    const refused: SignedDelivery[] = [];
    for (let n = 0; n < 1_000; n++) {
      const attack = twilioMutation(genuine, below);
      if (await verify(attack)) accepted.add(twilioAmbiguity(attack, genuine) ?? JSON.stringify(attack));
      else refused.push(attack);
    }
    expect([...accepted].sort()).toEqual([...twilioAmbiguities].sort());
    expect(refused.length).toBeGreaterThan(300);
  });

  const signed = (body: string) => signedFor(target, { body });
  const accepts = async (genuine: SignedDelivery, changes: Partial<SignedDelivery>) =>
    (await openTarget(target)).verify({ ...genuine, ...changes });

  it.each([
    ["spelled in another way", "A=x+y", "%41=x%20y"],
    ["in another order", "A=1&B=2", "B=2&A=1"],
    ["repeated", "A=1&B=2", "A=1&B=2&A=1"],
    ["divided at another place", "A=1&B=2", "A1=B2"],
  ])("FUN-02 fields that are %s are signed alike, by Twilio's own library too", async (_, body, other) => {
    const genuine = signed(body);
    expect(await accepts(genuine, { body: Buffer.from(other) })).toBe(true);
    const signature = genuine.headers["x-twilio-signature"]!;
    const params = Object.fromEntries(new URLSearchParams(other));
    expect(twilio.validateRequest(target.secrets, signature, genuine.url, params)).toBe(true);
  });

  it.each([
    ["another value", "A=1&B=2", "A=1&B=3"],
    ["a field more", "A=1&B=2", "A=1&B=2&C=3"],
    ["a field less", "A=1&B=2", "A=1"],
    ["a value twice, with another one", "A=1", "A=1&A=2"],
    ["another case", "A=1", "a=1"],
    ["a name without a value", "A=1", "A=1&B"],
    ["no body", "A=1", ""],
    ["JSON", "A=1", '{"A":"1"}'],
    ["a semicolon", "A=1&B=2", "A=1;B=2"],
  ])("FUN-02 %s is refused", async (_, body, other) => {
    expect(await accepts(signed(body), { body: Buffer.from(other) })).toBe(false);
  });

  it("FUN-02 a copied form cannot be turned into a body of one's own by a digest in the URL", async () => {
    // A text message that its sender has written: in the URL, it would be the digest of another body.
    const body = '{"forged":true}';
    const digest = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(body))).toString("hex");
    const genuine = signed(`AccountSid=AC1&Body=${encodeURIComponent(`&bodySHA256=${digest}&`)}&To=1555`);
    const url = `${genuine.url}AccountSidAC1Body&bodySHA256=${digest}&To1555`;
    expect(await accepts(genuine, { url, body: Buffer.from(body) })).toBe(false);
  });
});
