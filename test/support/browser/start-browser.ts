import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { access, constants, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";
import { afterAll, describe } from "vitest";

const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));

/** Tests in a real browser. Where none starts, they are skipped, and the suite's name says why. */
export async function describeInBrowser(name: string, suite: (browser: Browser) => void): Promise<void> {
  const started = await startBrowser();
  if (typeof started === "string") {
    describe.skip(`${name}, skipped because ${started}`, () => suite(undefined as never));
    return;
  }
  describe(name, () => {
    afterAll(started.stop);
    suite(started.browser);
  });
}

interface StartedBrowser {
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

/**
 * Unpacks the Chromium of the npm package `@sparticuz/chromium` once per version. The package unpacks its libraries only where
 * it believes to be in Lambda, and always to the folder for temporary files: it gets a folder of its own, in a process of its
 * own, and the folder is moved to its place when it is whole. So test runs beside each other, or killed ones, do no harm.
 */
async function unpackChromium(): Promise<Choice> {
  const { version } = JSON.parse(
    await readFile(join(modules, "@sparticuz/chromium/package.json"), "utf8"),
  ) as { version: string };
  const folder = join(await cacheFolder(), `oncebox-chromium-${version}-${userInfo().uid}`);
  if (!existsSync(folder)) await unpackTo(folder);
  return {
    executable: join(folder, "chromium"),
    env: {
      LD_LIBRARY_PATH: join(folder, "al2023/lib"),
      FONTCONFIG_FILE: join(folder, "fonts.conf"),
    },
  };
}

/** Kept with the installed packages, unless another user installed them. */
async function cacheFolder(): Promise<string> {
  const folder = join(modules, ".cache");
  try {
    await mkdir(folder, { recursive: true });
    await access(folder, constants.W_OK);
    return folder;
  } catch {
    return tmpdir();
  }
}

async function unpackTo(folder: string): Promise<void> {
  const unfinished = await mkdtemp(`${folder}-`);
  const script = 'await (await import("@sparticuz/chromium")).default.executablePath()';
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    cwd: modules,
    env: { ...process.env, TMPDIR: unfinished, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs20.x" },
    timeout: 60_000,
  });
  // the package's own file names folders of Lambda
  await writeFile(
    join(unfinished, "fonts.conf"),
    `<?xml version="1.0"?><fontconfig><dir>${join(folder, "fonts")}</dir><dir>/usr/share/fonts</dir>` +
      `<cachedir>${join(folder, "fonts-cache")}</cachedir></fontconfig>\n`,
  );
  try {
    await rename(unfinished, folder);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // otherwise another test run was faster
  }
}
