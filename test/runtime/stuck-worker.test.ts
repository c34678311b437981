import { expect, it } from "vitest";
import { runChild } from "../support/run-child.js";

it("ADD-16 exitWhenStuck ends the process with exit code 1 when all slots were lost to handlers that ignore their signal", async () => {
  await expect(runChild("stuck-worker-child.ts")).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("handler did not finish in time"),
  });
});
