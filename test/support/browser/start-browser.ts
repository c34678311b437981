import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { unpackChromium } from "./unpack-chromium.js";

export interface StartedBrowser {
  readonly browser: Browser;
  stop(): Promise<void>;
}

const debian = "/usr/bin/chromium";

const args = [
  "--headless",
  "--no-sandbox", // which root cannot have; the tests open pages of their own server only
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", // nothing outside of this machine has an address
];

interface Choice {
  readonly executable: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The Chromium that npm brings, or else Debian's. Returns why where neither starts. */
export async function startBrowser(): Promise<StartedBrowser | string> {
  const reasons: string[] = [];
  for (const choose of [unpackChromium, debianChromium]) {
    try {
      return await start(await choose());
    } catch (error) {
      reasons.push(String((error as Error).message).split("\n", 1)[0]!);
    }
  }
  return `no Chromium starts here: ${reasons.join("; ")}`;
}

async function debianChromium(): Promise<Choice> {
  if (!existsSync(debian)) throw new Error(`${debian} does not exist`);
  return { executable: debian };
}

async function start({ executable, env = {} }: Choice): Promise<StartedBrowser> {
  const home = await mkdtemp(join(tmpdir(), "oncebox-browser-"));
  const remove = () => rm(home, { recursive: true, force: true, maxRetries: 3 });
  try {
    const browser = await chromium.launch({
      executablePath: executable,
      args,
      env: { ...(process.env as Record<string, string>), ...env, HOME: home, TMPDIR: home },
      timeout: 30_000,
    });
    return {
      browser,
      async stop() {
        await browser.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
