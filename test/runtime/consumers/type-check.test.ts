import { join } from "node:path";
import { expect, it } from "vitest";
import { run } from "../../infra/packed.js";
import { root } from "../../support/markdown.js";

it("SVC-02 the examples of consumers type-check: RabbitMQ, Kafka, SQS, Service Bus, NATS", async () => {
  const compiler = join(root, "node_modules/typescript/bin/tsc");
  const { stdout } = await run(process.execPath, [compiler, "-p", join(root, "examples/consumers")]);
  expect(stdout).toBe("");
});
