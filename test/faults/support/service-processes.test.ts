import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { type ServiceProcess, serviceProcesses } from "../../support/service-processes.js";

const child = fileURLToPath(new URL("noting-child.ts", import.meta.url));

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-services-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "notes");
}

const urlOf = ({ address }: ServiceProcess) => `http://127.0.0.1:${address}/`;

/** Returns the id of the process that noted it, or undefined while there is none. */
async function note(service: ServiceProcess, body: string): Promise<number | undefined> {
  const answer = await fetch(urlOf(service), { method: "POST", body }).catch(() => undefined);
  return answer && Number(await answer.text());
}

const isRunning = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it("MSG-16 a killed service starts again on the same file and the same address, and stops at the end", async () => {
  const services = serviceProcesses(onTestFinished);
  const file = await newFile();
  const service = await services.start(child, [file]);
  const first = (await note(service, "one"))!;
  await service.kill();
  expect(isRunning(first)).toBe(false);
  expect(await note(service, "lost")).toBeUndefined();
  await service.startAgain();
  const second = (await note(service, "two"))!;
  expect(second).not.toBe(first);
  expect(await readFile(file, "utf8")).toBe("one\ntwo\n");
  await services.stop();
  expect(isRunning(second)).toBe(false);
  await expect(service.startAgain()).rejects.toThrow("were stopped");
});

it("MSG-16 a service that ends by itself is reported", async () => {
  const services = serviceProcesses(() => {});
  const service = await services.start(child, [await newFile()]);
  const pid = (await note(service, "one"))!;
  await expect(fetch(`${urlOf(service)}end`)).rejects.toThrow();
  await expect.poll(() => isRunning(pid)).toBe(false);
  await expect(services.stop()).rejects.toThrow("ended by itself (code 3");
  await services.stop();
});
