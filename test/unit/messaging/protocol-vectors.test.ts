import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { openEnvelope } from "../../../src/messaging/open-envelope.js";
import { signatureOf, signEnvelope, signedBytes } from "../../../src/messaging/sign-envelope.js";
import { codeBlocks, readDocument } from "../../support/markdown.js";
import { bytesOf, fieldsOf, now, opening, order, signing, vectors } from "./support.js";

const document = "docs/messaging-protocol.md";
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

describe("the test vectors of the protocol", () => {
  it.each(vectors.accepted)("MSG-06 MSG-08 accepted: $name", (vector) => {
    const fields = fieldsOf(vector.body);
    const { messageId, correlationId, sourceServiceId, messageType, endpoint } = JSON.parse(
      vector.body,
    ) as typeof fields;
    expect(openEnvelope(Buffer.from(vector.body), opening)).toMatchObject({
      kind: "opened",
      envelope: { messageId, correlationId, sourceServiceId, messageType, endpoint },
    });
    expect(fields.payloadText).toBe(vector.canonicalPayload);
    const bytes = signedBytes(fields, opening.serviceId);
    expect(sha256(bytes)).toBe(vector.signedBytesSha256);
    const secrets = opening.secretsOf(sourceServiceId)!;
    expect(secrets.map((one) => signatureOf(bytes, [one], sourceServiceId))).toContain(vector.hmac);
  });

  it.each(vectors.rejected)("MSG-06 MSG-08 $outcome: $name", (vector) => {
    const { outcome: kind, reason } = vector;
    expect(openEnvelope(bytesOf(vector), opening)).toMatchObject({ kind, reason });
  });

  it("MSG-06 the sender writes the body of the first vector", () => {
    const [first] = vectors.accepted;
    expect(signEnvelope(order, signing)).toBe(first!.body);
  });
});

describe(document, () => {
  const page = readDocument(document);

  it("MSG-08 shows every vector with its result", () => {
    const accepted = vectors.accepted.map(
      ({ name, signedBytesSha256, hmac }) => `| ${name} | \`${signedBytesSha256}\` | \`${hmac}\` |`,
    );
    const rejected = vectors.rejected.map(
      ({ name, outcome, reason }) => `| ${name} | ${outcome} | ${reason} |`,
    );
    const tables = page.slice(page.indexOf("### Accepted"));
    const rows = tables.split("\n").filter((line) => /^\| .* \| (`\w{64}`|malformed|refused) \|/.test(line));
    expect(rows).toEqual([...accepted, ...rejected]);
  });

  it("MSG-06 MSG-08 spells out the first vector: the receiver, the body and the signed bytes", () => {
    const [first] = vectors.accepted;
    const bytes = Buffer.from(signedBytes(fieldsOf(first!.body), opening.serviceId)).toString();
    const blocks = codeBlocks(document, "text", "## Test vectors").map((block) => block.replace(/\n/g, ""));
    expect(blocks).toEqual([first!.body, bytes]);
    for (const text of [vectors.version, now.toISOString(), opening.serviceId]) expect(page).toContain(text);
    for (const [source, secrets] of Object.entries(vectors.receiver.sources)) {
      expect(page).toContain(`| \`${source}\` | ${secrets.map((one) => `\`${one}\``).join(", ")} |`);
    }
  });
});
