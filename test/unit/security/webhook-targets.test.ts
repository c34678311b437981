import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import {
  isPublicAddress,
  type Network,
  type WebhookPublisherOptions,
  webhookPublisher,
  webhookPublisherOn,
} from "../../../src/publishers/webhook.js";

const secrets = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const message = { id: "1", messageId: "1", topic: "t", payload: "{}", headers: null, correlationId: null };
const context = { signal: new AbortController().signal } as never;

let server: Server | undefined;
afterEach(() => server?.close());

/** A name that is resolved as the test says. Whatever address is chosen, the connection goes to a server of this test. */
async function network(answers: readonly string[][]) {
  const seen = { headers: {} as Record<string, unknown>, resolved: 0, connectedTo: "" };
  server = createServer((incoming, outgoing) => {
    seen.headers = incoming.headers;
    outgoing.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const injected: Network = {
    resolve: async () =>
      answers[Math.min(seen.resolved++, answers.length - 1)]!.map((address) => ({
        address,
        family: address.includes(":") ? 6 : 4,
      })),
    request(_url, { lookup, ...options }, responded) {
      lookup("name.example", {}, (_error, address) => {
        seen.connectedTo = String(address);
      });
      return request(`http://127.0.0.1:${port}/`, { ...options, agent: false }, responded);
    },
  };
  const publish = (
    more: Partial<WebhookPublisherOptions> = {},
    headers: Record<string, string> | null = null,
  ) =>
    webhookPublisherOn({ url: "https://name.example/hooks", secrets, breaker: false, ...more }, injected)(
      { ...message, headers },
      context,
    );
  return { seen, publish };
}

describe("the target of a webhook", () => {
  it.each([
    "10.1.2.3",
    "127.0.0.1",
    "169.254.169.254",
    "172.31.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "0.0.0.0",
    "::1",
    "fe80::1",
    "fd00::1",
    "::ffff:10.0.0.1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::7f00:1",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "2001:0:5ef5:79fd:0:59d:a8fe:fefe",
    "2001::1",
    "::ffff:0:169.254.169.254",
    "::ffff:0:7f00:1",
  ])("is not a name that resolves to %s, unless that is allowed", async (address) => {
    const { seen, publish } = await network([["203.0.113.7", address]]);
    await expect(publish()).rejects.toThrow(/private, loopback or link-local.*allowPrivateAddresses/);
    expect(seen.headers).toEqual({});
    await publish({ allowPrivateAddresses: true });
    expect(seen.headers).toHaveProperty("webhook-id", "1");
  });

  it("is the address that was checked: a name is resolved once per message", async () => {
    const { seen, publish } = await network([["203.0.113.7"], ["127.0.0.1"]]);
    await publish();
    expect(seen).toMatchObject({ connectedTo: "203.0.113.7", resolved: 1 });
    await expect(publish()).rejects.toThrow(/private/);
  });

  it.each([
    ["http://name.example", /allowHttp/],
    ["https://127.0.0.1/", /private/],
    ["https://2130706433/", /private/],
    ["https://[::1]/", /private/],
    ["https://[::ffff:127.0.0.1]/", /private/],
    ["https://169.254.169.254/latest", /private/],
    ["https://168.63.129.16/machine", /private/],
    ["https://[::ffff:0:127.0.0.1]/", /private/],
    ["https://[2001:0:7f00:1::]/", /private/],
    ["https://user:hidden-password@name.example/", /no user and password/],
  ])("IBX-127 a URL is refused at once: %s", (url, said) => {
    expect(() => webhookPublisher({ url, secrets })).toThrow(said);
    expect(() => webhookPublisher({ url, secrets })).not.toThrow(/hidden-password/);
  });

  it("headers of the connection and credentials of a message are not sent, those of the publisher are", async () => {
    const { seen, publish } = await network([["203.0.113.7"]]);
    const foreign = {
      Authorization: "Bearer foreign",
      cookie: "a=b",
      "Proxy-Authorization": "x",
      te: "trailers",
      Connection: "close, x",
      "x-kept": "yes",
    };
    await publish({ headers: { authorization: "Bearer own" } }, foreign);
    expect(seen.headers).toMatchObject({ authorization: "Bearer own", "x-kept": "yes" });
    for (const name of ["cookie", "proxy-authorization", "te"]) expect(seen.headers).not.toHaveProperty(name);
    await publish({}, foreign);
    expect(seen.headers).not.toHaveProperty("authorization");
  });

  it.each(["topic", "messageId", "x-other"])(
    "IBX-127 a header %s that HTTP cannot carry fails the message, and its value is in no error",
    async (name) => {
      const { publish } = await network([["203.0.113.7"]]);
      const sent = publish({}, { [name]: "hidden-value\nmore" });
      await expect(sent).rejects.toThrow(/is not allowed in a header/);
      await expect(sent).rejects.not.toThrow(/hidden-value/);
    },
  );

  it("a secret of fewer than 16 bytes is refused, unless that is allowed", () => {
    const url = "https://name.example/hooks";
    const short = `whsec_${Buffer.alloc(15).toString("base64")}`;
    for (const given of [short, [secrets, short]])
      expect(() => webhookPublisher({ url, secrets: given })).toThrow(
        /secrets\[\d\] has 15 bytes; at least 16/,
      );
    expect(() => webhookPublisher({ url, secrets: short, allowShortSecrets: true })).not.toThrow();
  });

  it("a public address is public", () => {
    for (const address of ["203.0.113.7", "8.8.8.8", "2606:4700::1111"])
      expect(isPublicAddress(address)).toBe(true);
    expect(isPublicAddress("no address")).toBe(false);
  });
});
