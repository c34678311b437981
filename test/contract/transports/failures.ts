import { describe, expect, it } from "vitest";
import { gate } from "../support/gate.js";
import type { Refused, TransportHarness } from "./harness.js";
import {
  acknowledged,
  expectPrivate,
  newMessage,
  privateText,
  rejection,
  sendUntilAcknowledged,
  start,
} from "./support.js";

export function failureTests(harness: TransportHarness): void {
  describe("failures", () => {
    it.each([
      [400, true],
      [401, undefined],
      [413, true],
    ] as const)(
      "MSG-18 a message that is refused with %i is not acknowledged",
      async (refused, permanent) => {
        const setup = await start(harness, async (): Promise<Refused> => ({ refused }));
        const response = await setup.send(newMessage());
        expect(response).toMatchObject({ acknowledged: false, duplicateDetected: false });
        expect(response.permanent).toBe(permanent);
        expect(response.error).toContain(String(refused));
        expectPrivate(response, setup);
      },
    );

    it("MSG-18 the error of a receiver that cannot process the message arrives without the payload", async () => {
      const error = `ReserveStock failed: bad card ${privateText}`;
      const refusal = { acknowledged: false, duplicateDetected: false, error };
      const setup = await start(harness, async () => refusal);
      const response = await setup.send(newMessage());
      expect(response).toMatchObject({ acknowledged: false, duplicateDetected: false });
      expect(response.error).toContain("ReserveStock failed");
      expect(response.permanent).toBeUndefined();
      expectPrivate(response, setup);
    });

    it("MSG-18 a permanent refusal arrives as permanent, with its reason", async () => {
      const error = `the order was deleted: ${privateText}`;
      const refusal = { acknowledged: false, duplicateDetected: false, error, permanent: true };
      const setup = await start(harness, async () => refusal);
      const response = await setup.send(newMessage());
      expect(response).toMatchObject({ acknowledged: false, duplicateDetected: false, permanent: true });
      expect(response.error).toContain("the order was deleted");
      expectPrivate(response, setup);
    });

    it("MSG-18 any other value of permanent means that the message may be sent again", async () => {
      const odd: unknown[] = [false, null, "true", 1];
      const base = { duplicateDetected: false, error: "no room" };
      const setup = await start(harness, async () => {
        const permanent = odd.shift() as boolean;
        return odd.length === 0
          ? { ...base, acknowledged: true, permanent: true }
          : { ...base, acknowledged: false, permanent };
      });
      while (odd.length > 0) expect((await setup.send(newMessage())).permanent).toBeUndefined();
    });

    it("MSG-09 when the receiver throws, the send fails, and the next one succeeds", async () => {
      let isBroken = true;
      const setup = await start(harness, async () => {
        if (isBroken) throw new Error(`cannot store ${privateText}`);
        return acknowledged;
      });
      expectPrivate(await rejection(setup.send(newMessage())), setup);
      isBroken = false;
      expect(await setup.send(newMessage())).toEqual(acknowledged);
    });

    it("MSG-09 when the receiver is away, the send fails, and succeeds once it is back", async () => {
      const setup = await start(harness, async () => acknowledged);
      await setup.stopReceiver();
      const message = newMessage();
      expectPrivate(await rejection(setup.send(message)), setup);
      expect(setup.received).toHaveLength(0);
      await setup.startReceiver();
      expect(await sendUntilAcknowledged(setup, message)).toEqual(acknowledged);
      expect(setup.received).toHaveLength(1);
    });

    it("MSG-09 a receiver that was away between two messages gets the second one", async () => {
      const setup = await start(harness, async () => acknowledged);
      await setup.send(newMessage());
      await setup.stopReceiver();
      await setup.startReceiver();
      expect(await sendUntilAcknowledged(setup, newMessage())).toEqual(acknowledged);
      expect(setup.received).toHaveLength(2);
    });

    it("MSG-09 an abort rejects with its reason, and aborts the receiver's signal", async () => {
      const arrived = gate();
      const aborted = gate();
      const released = gate();
      const setup = await start(harness, async (_, { signal }) => {
        signal.addEventListener("abort", () => aborted.open());
        arrived.open();
        await released.promise;
        return acknowledged;
      });
      const stopping = new AbortController();
      const sending = rejection(setup.send(newMessage(), stopping.signal));
      await arrived.promise;
      const reason = new Error("the function stops");
      stopping.abort(reason);
      expect(await sending).toBe(reason);
      await aborted.promise;
      released.open();
      expect(await setup.send(newMessage())).toEqual(acknowledged);
    });

    it("MSG-09 nothing is sent when the signal is already aborted", async () => {
      const setup = await start(harness, async () => acknowledged);
      const reason = new Error("the function has stopped");
      expect(await rejection(setup.send(newMessage(), AbortSignal.abort(reason)))).toBe(reason);
      expect(await setup.send(newMessage())).toEqual(acknowledged);
      expect(setup.received).toHaveLength(1);
    });
  });
}
