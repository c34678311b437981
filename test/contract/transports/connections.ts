import { describe, expect, it } from "vitest";
import { gate } from "../support/gate.js";
import type { TransportHarness } from "./harness.js";
import {
  acknowledged,
  expectPrivate,
  newMessage,
  privateText,
  rejection,
  sendUntilAcknowledged,
  start,
} from "./support.js";

const large = { card: privateText, text: "x".repeat(1_000_000) };
const noNetwork = "this transport has no network";

export function connectionTests(harness: TransportHarness): void {
  describe("connections", () => {
    it("MSG-16 when the connection is cut within the request, the send fails, nothing is processed, and a retry succeeds", async (test) => {
      const setup = await start(harness, async () => acknowledged);
      const { network, received } = setup;
      if (network === undefined) return test.skip(noNetwork);
      network.cutAfter({ requestBytes: 100_000 });
      const message = newMessage(large);
      expectPrivate(await rejection(setup.send(message)), setup);
      await network.mend();
      expect(received).toHaveLength(0);
      expect(await sendUntilAcknowledged(setup, message)).toEqual(acknowledged);
      expect(received).toHaveLength(1);
    });

    it("MSG-16 when the connection is cut within the response, the send fails, and a retry gets the whole response", async (test) => {
      const setup = await start(harness, async () => ({ ...acknowledged, payload: large }));
      const { network, received } = setup;
      if (network === undefined) return test.skip(noNetwork);
      network.cutAfter({ responseBytes: 50_000 });
      const message = newMessage();
      expectPrivate(await rejection(setup.send(message)), setup);
      expect(received).toHaveLength(1);
      await network.mend();
      expect((await sendUntilAcknowledged(setup, message)).payload).toEqual(large);
      expect(received).toHaveLength(2);
    });

    it("MSG-09 a cut connection that was used before does not stop later messages", async (test) => {
      const setup = await start(harness, async () => ({ ...acknowledged, payload: large }));
      const { network } = setup;
      if (network === undefined) return test.skip(noNetwork);
      await setup.send(newMessage());
      network.cutAfter({ responseBytes: 50_000 });
      const ends = await Promise.allSettled([setup.send(newMessage()), setup.send(newMessage())]);
      expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
      await network.mend();
      expect((await sendUntilAcknowledged(setup, newMessage())).payload).toEqual(large);
    });

    it("MSG-09 close ends running sends, refuses new messages, and leaves no connection open", async () => {
      const arrived = gate();
      const released = gate();
      const setup = await start(harness, async () => {
        arrived.open();
        await released.promise;
        return acknowledged;
      });
      const sending = rejection(setup.send(newMessage()));
      await arrived.promise;
      await setup.transport.close();
      expectPrivate(await sending, setup);
      expectPrivate(await rejection(setup.send(newMessage())), setup);
      expect(setup.received).toHaveLength(1);
      await setup.network?.allClosed();
      released.open();
      await setup.transport.close(); // a second time does nothing
    });

    it("MSG-09 close ends idle connections", async (test) => {
      const setup = await start(harness, async () => acknowledged);
      if (setup.network === undefined) return test.skip(noNetwork);
      await Promise.all(Array.from({ length: 5 }, () => setup.send(newMessage())));
      await setup.transport.close();
      await setup.network.allClosed();
    });
  });
}
